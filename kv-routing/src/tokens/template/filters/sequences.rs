//! Filters of lists and dicts.

use std::cmp::Ordering;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, Value};

use super::text::{invalid, text};
use crate::openai::value::{List, order};
use crate::tokens::template::methods::dict_items;

/// `join(d='', attribute=none)`
pub(in crate::tokens::template) fn join(
    value: &Value,
    separator: Option<Value>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let separator = match separator {
        Some(separator) => Some(separator),
        None => kwargs.get("d")?,
    };
    let attribute: Option<Value> = kwargs.get("attribute")?;
    kwargs.assert_all_used()?;
    if value.is_none() {
        return Err(invalid("cannot join none".to_owned()));
    }
    let separator = separator.unwrap_or_default();
    let separator = text(&separator);
    let mut out = String::new();
    for (index, item) in value.try_iter()?.enumerate() {
        if index > 0 {
            out.push_str(&separator);
        }
        match &attribute {
            Some(attribute) if !attribute.is_none() => out.push_str(&text(&path(&item, attribute)?)),
            _ => out.push_str(&text(&item)),
        }
    }
    Ok(out)
}

/// An attribute with dots, as filters take it.
fn path(value: &Value, attribute: &Value) -> Result<Value, Error> {
    let Some(dotted) = attribute.as_str() else { return value.get_item(attribute) };
    let mut found = value.clone();
    for part in dotted.split('.') {
        found = match part.parse::<usize>() {
            Ok(index) => found.get_item_by_index(index)?,
            Err(_) => found.get_item(&Value::from(part))?,
        };
    }
    Ok(found)
}

/// `items`: pairs of a dict, nothing of an undefined value.
pub(in crate::tokens::template) fn items(value: &Value) -> Result<Value, Error> {
    if value.is_undefined() {
        return Ok(List::value(Vec::new()));
    }
    if value.kind() != ValueKind::Map {
        return Err(invalid("can only get item pairs from a mapping".to_owned()));
    }
    Ok(dict_items(value))
}

/// `list`
pub(in crate::tokens::template) fn list(value: &Value) -> Result<Value, Error> {
    if value.is_none() {
        return Err(invalid("none is not iterable".to_owned()));
    }
    Ok(List::value(value.try_iter()?.collect()))
}

/// The items; none has no items, unlike in minijinja.
fn collected(value: &Value) -> Result<Vec<Value>, Error> {
    if value.is_none() {
        return Err(invalid("none is not iterable".to_owned()));
    }
    Ok(value.try_iter()?.collect())
}

/// `first`
pub(in crate::tokens::template) fn first(value: &Value) -> Result<Value, Error> {
    Ok(collected(value)?.into_iter().next().unwrap_or(Value::UNDEFINED))
}

/// `last`
pub(in crate::tokens::template) fn last(value: &Value) -> Result<Value, Error> {
    Ok(collected(value)?.pop().unwrap_or(Value::UNDEFINED))
}

/// `reverse`
pub(in crate::tokens::template) fn reverse(value: &Value) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        return Ok(Value::from(text.chars().rev().collect::<String>()));
    }
    let mut items = collected(value)?;
    items.reverse();
    Ok(List::value(items))
}

/// Orders texts without regard to case unless asked for.
fn compare(a: &Value, b: &Value, case_sensitive: bool) -> Ordering {
    match (a.as_str(), b.as_str()) {
        (Some(a), Some(b)) if !case_sensitive => a.to_lowercase().cmp(&b.to_lowercase()),
        _ => a.cmp(b),
    }
}

fn ordered(ordering: Ordering, reverse: bool) -> Ordering {
    if reverse { ordering.reverse() } else { ordering }
}

/// `sort(reverse=false, case_sensitive=false, attribute=none)`
pub(in crate::tokens::template) fn sort(value: &Value, reverse: Option<bool>, kwargs: Kwargs) -> Result<Value, Error> {
    let reverse = reverse.or(kwargs.get("reverse")?).unwrap_or(false);
    let case_sensitive = kwargs.get::<Option<bool>>("case_sensitive")?.unwrap_or(false);
    let attribute: Option<Value> = kwargs.get("attribute")?;
    kwargs.assert_all_used()?;
    let attributes: Vec<Value> = match attribute.as_ref().filter(|attribute| !attribute.is_none()) {
        Some(names) => match names.as_str() {
            Some(names) => names.split(',').map(|name| Value::from(name.trim())).collect(),
            None => vec![names.clone()],
        },
        None => Vec::new(),
    };
    let items = collected(value)?;
    let mut keys: Vec<Vec<Value>> = Vec::with_capacity(items.len());
    for item in &items {
        keys.push(match attributes.as_slice() {
            [] => vec![item.clone()],
            names => names.iter().map(|name| path(item, name)).collect::<Result<_, Error>>()?,
        });
    }
    let order = order(items.len(), &|a, b| {
        let pairs = keys.get(a).into_iter().flatten().zip(keys.get(b).into_iter().flatten());
        let mut orderings = pairs.map(|(a, b)| compare(a, b, case_sensitive));
        ordered(orderings.find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal), reverse)
    });
    Ok(List::value(order.into_iter().filter_map(|index| items.get(index).cloned()).collect()))
}

/// `dictsort(case_sensitive=false, by='key', reverse=false)`
pub(in crate::tokens::template) fn dictsort(
    value: &Value,
    case_sensitive: Option<bool>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let case_sensitive = case_sensitive.or(kwargs.get("case_sensitive")?).unwrap_or(false);
    let by: Option<String> = kwargs.get("by")?;
    let reverse = kwargs.get::<Option<bool>>("reverse")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    if value.kind() != ValueKind::Map {
        return Err(invalid("dictsort: not a dict".to_owned()));
    }
    let pairs: Vec<(Value, Value)> =
        value.as_object().and_then(|object| object.try_iter_pairs()).into_iter().flatten().collect();
    let side =
        |index: usize| pairs.get(index).map(|(key, item)| if by.as_deref() == Some("value") { item } else { key });
    let order = order(pairs.len(), &|a, b| match (side(a), side(b)) {
        (Some(a), Some(b)) => ordered(compare(a, b, case_sensitive), reverse),
        _ => Ordering::Equal,
    });
    let sorted = order.into_iter().filter_map(|index| pairs.get(index).cloned());
    Ok(List::value(sorted.map(|(key, item)| List::tuple(vec![key, item])).collect()))
}
