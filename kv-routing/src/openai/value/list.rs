//! Lists, tuples and what a dict's methods return.

use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr};

use super::repr::write_repr;

/// What a sequence is in Python; it shows when one is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// `[1, 2]`
    #[default]
    List,
    /// `(1, 2)`
    Tuple,
    /// `dict_items([...])`
    Items,
    /// `dict_keys([...])`
    Keys,
    /// `dict_values([...])`
    Values,
}

impl Shape {
    /// What is printed around the items of a sequence of `len` items.
    pub(super) fn brackets(self, len: usize) -> (&'static str, &'static str) {
        match self {
            Self::List => ("[", "]"),
            Self::Tuple if len == 1 => ("(", ",)"),
            Self::Tuple => ("(", ")"),
            Self::Items => ("dict_items([", "])"),
            Self::Keys => ("dict_keys([", "])"),
            Self::Values => ("dict_values([", "])"),
        }
    }
}

/// A sequence that came from JSON or from one of Python's functions.
#[derive(Debug, Default)]
pub struct List {
    items: Vec<Value>,
    shape: Shape,
}

impl List {
    /// A list as a template value.
    pub fn value(items: Vec<Value>) -> Value {
        Self::shaped(items, Shape::List)
    }

    /// A tuple as a template value.
    pub fn tuple(items: Vec<Value>) -> Value {
        Self::shaped(items, Shape::Tuple)
    }

    /// A sequence of any shape as a template value.
    pub fn shaped(items: Vec<Value>, shape: Shape) -> Value {
        Value::from_object(Self { items, shape })
    }

    /// The items.
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// What it is in Python.
    pub fn shape(&self) -> Shape {
        self.shape
    }
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.items.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_repr(&Value::from_dyn_object(Arc::clone(self)), f)
    }
}
