//! The `template` section: a [`TemplateConfig`] in bincode with fixed-width integers.

use bincode::config::{Configuration, Fixint, Limit, LittleEndian};

use super::ImageError;
use crate::tokens::template::TemplateConfig;

/// The longest chat templates in the field have some 30,000 characters.
const BOUND: usize = 16 << 20;

fn config() -> Configuration<LittleEndian, Fixint, Limit<BOUND>> {
    bincode::config::standard().with_fixed_int_encoding().with_limit::<BOUND>()
}

/// The section's bytes; `None` when the templates are too long.
pub fn encode_template(template: &TemplateConfig) -> Option<Vec<u8>> {
    bincode::encode_to_vec(template, config()).ok().filter(|bytes| bytes.len() <= BOUND)
}

/// Reads the section; `None` when the image has none.
pub(crate) fn decode_template(bytes: &[u8]) -> Result<Option<TemplateConfig>, ImageError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    match bincode::decode_from_slice(bytes, config()) {
        Ok((template, read)) if read == bytes.len() => Ok(Some(template)),
        _ => Err(ImageError::Template),
    }
}
