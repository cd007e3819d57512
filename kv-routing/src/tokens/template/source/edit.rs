//! Changes to a text, by places in the original.

use minijinja::machinery::ast::Expr;

use crate::openai::value::order;

/// Text put in at a place, and how many bytes there it replaces.
pub(super) struct Edit {
    pub(super) at: usize,
    pub(super) dropped: usize,
    pub(super) text: String,
}

/// The text with all edits made. They must not overlap.
pub(super) fn edited(source: &str, edits: Vec<Edit>) -> String {
    let at = |place: usize| edits.get(place).map(|edit| edit.at);
    let places = order(edits.len(), &|a, b| at(a).cmp(&at(b)));
    let mut out = String::with_capacity(source.len() + edits.len() * 16);
    let mut from = 0;
    for edit in places.into_iter().filter_map(|place| edits.get(place)) {
        out.push_str(source.get(from..edit.at).unwrap_or_default());
        out.push_str(&edit.text);
        from = edit.at + edit.dropped;
    }
    out.push_str(source.get(from..).unwrap_or_default());
    out
}

/// Where an expression begins. The span of a chain of lookups begins at its last link: the first one says where all of it does.
pub(super) fn first_offset(expr: &Expr<'_>) -> u32 {
    let inner = match expr {
        Expr::GetAttr(node) => first_offset(&node.expr),
        Expr::GetItem(node) => first_offset(&node.expr),
        Expr::Slice(node) => first_offset(&node.expr),
        Expr::Call(node) => first_offset(&node.expr),
        _ => u32::MAX,
    };
    expr.span().start_offset.min(inner)
}
