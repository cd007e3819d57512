//! Numbers as Python reads them: integers stay integers, anything with a point or an exponent is a float.

use super::{Cursor, JsonError, JsonProblem};

/// A number of the body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    /// No point and no exponent.
    Int(i128),
    /// Anything else, also `NaN` and the infinities.
    Float(f64),
}

impl<'a> Cursor<'a> {
    /// Reads a number.
    pub(crate) fn number(&mut self) -> Result<Number, JsonError> {
        let (text, integer) = self.number_text()?;
        let parsed = match text {
            "NaN" => Some(Number::Float(f64::NAN)),
            "Infinity" => Some(Number::Float(f64::INFINITY)),
            "-Infinity" => Some(Number::Float(f64::NEG_INFINITY)),
            _ if integer => text.parse().ok().map(Number::Int),
            _ => text.parse().ok().map(Number::Float),
        };
        parsed.map_or_else(|| self.fail(JsonProblem::Number), Ok)
    }

    /// Passes over a number: its text, and whether it is an integer.
    pub(super) fn number_text(&mut self) -> Result<(&'a str, bool), JsonError> {
        self.skip_space();
        let start = self.at;
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        let mut integer = true;
        match self.byte() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            Some(b'I') => {
                self.literal("Infinity")?;
                return Ok((self.text.get(start..self.at).unwrap_or_default(), false));
            }
            Some(b'N') if self.at == start => {
                self.literal("NaN")?;
                return Ok(("NaN", false));
            }
            _ => return self.unexpected(),
        }
        if self.byte() == Some(b'.') {
            integer = false;
            self.at += 1;
            self.some_digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            integer = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.byte() {
                self.at += 1;
            }
            self.some_digits()?;
        }
        Ok((self.text.get(start..self.at).unwrap_or_default(), integer))
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.byte() {
            self.at += 1;
        }
    }

    fn some_digits(&mut self) -> Result<(), JsonError> {
        if !matches!(self.byte(), Some(b'0'..=b'9')) {
            return self.unexpected();
        }
        self.digits();
        Ok(())
    }

    /// Reads an integer that fits 32 bits, the form of a token id; none when the number is another.
    pub(crate) fn small_integer(&mut self) -> Result<Option<u32>, JsonError> {
        self.skip_space();
        // Up to nine digits cannot overflow, and longer ones are no one's token ids.
        let mut value: u32 = 0;
        let mut digits = 0;
        for byte in self.rest().iter().take(10) {
            if !byte.is_ascii_digit() {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(u32::from(byte - b'0'));
            digits += 1;
        }
        let leading_zero = digits > 1 && self.byte() == Some(b'0');
        let next = self.rest().get(digits).copied();
        if (1..10).contains(&digits) && !leading_zero && !matches!(next, Some(b'.' | b'e' | b'E')) {
            self.at += digits;
            return Ok(Some(value));
        }
        Ok(match self.number()? {
            Number::Int(value) => u32::try_from(value).ok(),
            Number::Float(_) => None,
        })
    }
}
