//! JSON straight to the values templates see.

use minijinja::Value;

use super::{Cursor, JsonError, Kind, Number};
use crate::openai::value::{DictBuilder, Float, List};

impl Cursor<'_> {
    /// Reads one value of any kind.
    pub(crate) fn value(&mut self) -> Result<Value, JsonError> {
        self.keep()?;
        Ok(match self.peek()? {
            Kind::Object => {
                let mut dict = DictBuilder::default();
                self.object(&mut |cursor, key| -> Result<(), JsonError> {
                    dict.insert(Value::from(key), cursor.value()?);
                    Ok(())
                })?;
                dict.finish()
            }
            Kind::Array => {
                let mut items = Vec::new();
                self.array(&mut |cursor| -> Result<(), JsonError> {
                    items.push(cursor.value()?);
                    Ok(())
                })?;
                List::value(items)
            }
            Kind::String => self.string_value()?,
            Kind::Number => match self.number()? {
                Number::Int(value) => i64::try_from(value).map_or_else(|_| Value::from(value), Value::from),
                Number::Float(value) => Float::value(value),
            },
            Kind::Bool => Value::from(self.bool()?),
            Kind::Null => {
                self.null()?;
                Value::from(())
            }
        })
    }
}

/// Reads a whole JSON text as the value a template sees, as Python's `json.loads` would.
///
/// # Errors
/// [`JsonError`] when it is not JSON or over a bound.
pub fn to_value(text: &[u8]) -> Result<Value, JsonError> {
    let mut cursor = Cursor::new(text)?;
    let value = cursor.value()?;
    cursor.end()?;
    Ok(value)
}
