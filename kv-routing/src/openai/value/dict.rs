//! An insertion-ordered dict with string keys.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectExt, ObjectRepr};

use super::order::order;
use super::repr::write_repr;

/// Up to this many entries a linear search beats an index.
const LINEAR: usize = 12;

/// A dict that came from JSON. Keys are strings, unique, in the order of their first appearance.
#[derive(Clone, Debug, Default)]
pub struct Dict {
    entries: Vec<(Value, Value)>,
    /// Entry numbers in key order; empty for small dicts.
    by_key: Vec<usize>,
}

fn key_str(key: &Value) -> &str {
    key.as_str().unwrap_or_default()
}

impl Dict {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let entry = if self.by_key.is_empty() {
            self.entries.iter().find(|(name, _)| key_str(name) == key)
        } else {
            let found = self.by_key.binary_search_by(|&entry| self.key_of(entry).cmp(key)).ok()?;
            self.entries.get(*self.by_key.get(found)?)
        };
        entry.map(|(_, value)| value)
    }

    /// The entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key_str(key), value))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn key_of(&self, entry: usize) -> &str {
        self.entries.get(entry).map_or("", |(key, _)| key_str(key))
    }
}

impl Object for Dict {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get(key.as_str()?).cloned()
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.get(key).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_key_value_enumerator(|this| {
            Box::new(this.entries.iter().map(|(key, value)| (key.clone(), value.clone())))
        })
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_repr(&Value::from_dyn_object(Arc::clone(self)), f)
    }
}

/// Collects the entries of a [`Dict`]; of equal keys the last value wins and keeps the first one's place.
#[derive(Debug, Default)]
pub struct DictBuilder {
    entries: Vec<(Value, Value)>,
}

impl From<&Dict> for DictBuilder {
    fn from(dict: &Dict) -> Self {
        Self { entries: dict.entries.clone() }
    }
}

impl DictBuilder {
    /// Adds an entry; `key` must be a string.
    pub fn insert(&mut self, key: Value, value: Value) {
        self.entries.push((key, value));
    }

    /// Adds an entry with a known key.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.insert(Value::from(key), value.into());
    }

    /// The dict.
    pub fn build(self) -> Dict {
        let entries = self.entries;
        if entries.len() <= LINEAR {
            return Dict { entries: unique_small(entries), by_key: Vec::new() };
        }
        unique_large(entries)
    }

    /// The dict as a template value.
    pub fn finish(self) -> Value {
        Value::from_object(self.build())
    }
}

fn unique_small(entries: Vec<(Value, Value)>) -> Vec<(Value, Value)> {
    let mut unique: Vec<(Value, Value)> = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        match unique.iter_mut().find(|(known, _)| key_str(known) == key_str(&key)) {
            Some((_, known)) => *known = value,
            None => unique.push((key, value)),
        }
    }
    unique
}

fn unique_large(entries: Vec<(Value, Value)>) -> Dict {
    let key_at = |entry: usize| entries.get(entry).map_or("", |(key, _)| key_str(key));
    let sorted = order(entries.len(), &|a, b| key_at(a).cmp(key_at(b)));
    // For the first entry of every key, the entry whose value it gets; none for the repetitions.
    let mut value_from: Vec<Option<usize>> = vec![None; entries.len()];
    for group in sorted.chunk_by(|&a, &b| key_at(a).cmp(key_at(b)) == Ordering::Equal) {
        if let (Some(&first), Some(&last)) = (group.first(), group.last())
            && let Some(slot) = value_from.get_mut(first)
        {
            *slot = Some(last);
        }
    }
    let value_at = |entry: usize| entries.get(entry).map(|(_, value)| value.clone());
    let unique: Vec<(Value, Value)> = entries
        .iter()
        .zip(&value_from)
        .filter_map(|((key, _), from)| Some((key.clone(), value_at((*from)?)?)))
        .collect();
    if unique.len() <= LINEAR {
        return Dict { entries: unique, by_key: Vec::new() };
    }
    let unique_key = |entry: usize| unique.get(entry).map_or("", |(key, _)| key_str(key));
    let by_key = order(unique.len(), &|a, b| unique_key(a).cmp(unique_key(b)));
    Dict { entries: unique, by_key }
}
