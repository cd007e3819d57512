//! Single fields, as leniently typed as pydantic's lax mode, which is what the engines parse with.

use std::borrow::Cow;

use crate::openai::json::{Cursor, JsonError, Kind, Number};
use crate::openai::request::BodyError;

impl<'a> Cursor<'a> {
    /// A string or null.
    pub(super) fn optional_text(&mut self, field: &'static str) -> Result<Option<Cow<'a, str>>, BodyError> {
        match self.peek()? {
            Kind::String => Ok(Some(self.string()?)),
            Kind::Null => {
                self.null()?;
                Ok(None)
            }
            _ => Err(BodyError::field(field, "must be a string")),
        }
    }

    /// A flag that decides how the prompt looks: anything but a boolean is refused.
    pub(super) fn flag(&mut self, field: &'static str) -> Result<bool, BodyError> {
        self.lax_bool()?.ok_or_else(|| BodyError::field(field, "must be a boolean"))
    }

    /// A boolean, or one of the numbers and words that pydantic takes for one. None for anything else.
    pub(super) fn lax_bool(&mut self) -> Result<Option<bool>, JsonError> {
        Ok(match self.peek()? {
            Kind::Bool => Some(self.bool()?),
            Kind::Number => match self.number()? {
                Number::Int(0) => Some(false),
                Number::Int(1) => Some(true),
                Number::Float(0.0) => Some(false),
                Number::Float(1.0) => Some(true),
                _ => None,
            },
            Kind::String => match self.string()?.to_ascii_lowercase().as_str() {
                "0" | "off" | "f" | "false" | "n" | "no" => Some(false),
                "1" | "on" | "t" | "true" | "y" | "yes" => Some(true),
                _ => None,
            },
            _ => {
                self.skip()?;
                None
            }
        })
    }

    /// An integer, also written as a whole float or in a string. None for anything else.
    pub(super) fn lax_integer(&mut self) -> Result<Option<i64>, JsonError> {
        Ok(match self.peek()? {
            Kind::Number => match self.number()? {
                Number::Int(value) => i64::try_from(value).ok(),
                Number::Float(value) if value.fract() == 0.0 && value.abs() < 9.0e15 => Some(value as i64),
                Number::Float(_) => None,
            },
            Kind::String => self.string()?.trim().parse().ok(),
            _ => {
                self.skip()?;
                None
            }
        })
    }

    /// A non-negative integer of 32 bits. None for anything else.
    pub(super) fn lax_u32(&mut self) -> Result<Option<u32>, JsonError> {
        Ok(self.lax_integer()?.and_then(|value| u32::try_from(value).ok()))
    }
}
