//! What is changed in a template's source before it compiles.

mod edit;
mod level;
mod loops;
mod needles;
mod slices;
mod sums;

use std::borrow::Cow;

use super::analysis::{Node, tree, walk};
use super::error::TemplateError;

pub(super) use needles::{HOLDS, holds};
pub(super) use slices::SLICE;
pub(super) use sums::{TEXT, text};

/// The source to compile.
pub(super) fn prepare(source: &str) -> Result<String, TemplateError> {
    let source = plain_scopes(source);
    let source = loops::searches_ended(&source)?;
    let source = slices::stepped_slices_called(&source)?;
    let source = needles::needles_called(&source)?;
    Ok(sums::sums_printed_in_parts(&source))
}

/// Turns `{% generation %}` blocks, which only mark the assistant's text for training, into plain scopes.
pub(super) fn plain_scopes(source: &str) -> Cow<'_, str> {
    if !source.contains("generation") {
        return Cow::Borrowed(source);
    }
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let end = tag.find("%}").map_or(tag.len(), |end| end + 2);
        let (tag, after) = tag.split_at(end);
        let name = tag.trim_start_matches("{%").trim_start_matches(['-', '+']).trim_end_matches("%}");
        match name.trim_end_matches(['-', '+']).trim() {
            "generation" => out.push_str(&tag.replacen("generation", "with", 1)),
            "endgeneration" => out.push_str(&tag.replacen("endgeneration", "endwith", 1)),
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Whether a template has `{% generation %}` blocks.
pub(super) fn marks_generation(source: &str) -> bool {
    plain_scopes(source) != source
}

#[cfg(test)]
mod tests {
    use super::prepare;

    #[test]
    fn generation_blocks_become_scopes() {
        let source = "{%- generation -%}generation{% endgeneration %}{% if generation %}{% endif %}";
        assert_eq!(prepare(source).expect(source), "{%- with -%}generation{% endwith %}{% if generation %}{% endif %}");
    }
}
