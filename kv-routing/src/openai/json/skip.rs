//! Passing over values nobody asked for.

use super::{Cursor, JsonError, Kind};

impl Cursor<'_> {
    /// Passes over one value of any kind, checking its grammar.
    pub(crate) fn skip(&mut self) -> Result<(), JsonError> {
        match self.peek()? {
            Kind::Object => {
                self.expect(b'{')?;
                self.deeper()?;
                if !self.take(b'}') {
                    loop {
                        self.skip_string()?;
                        self.expect(b':')?;
                        self.skip()?;
                        if !self.take(b',') {
                            self.expect(b'}')?;
                            break;
                        }
                    }
                }
                self.depth -= 1;
                Ok(())
            }
            Kind::Array => self.array(&mut Self::skip),
            Kind::String => self.skip_string(),
            Kind::Number => self.number_text().map(|_| ()),
            Kind::Bool => self.bool().map(|_| ()),
            Kind::Null => self.null(),
        }
    }
}
