//! A list.

use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectExt, ObjectRepr};

use super::repr::write_repr;

/// A list that came from JSON.
#[derive(Debug, Default)]
pub struct List(Vec<Value>);

impl List {
    /// A list as a template value.
    pub fn value(items: Vec<Value>) -> Value {
        Value::from_object(Self(items))
    }

    /// The items.
    pub fn items(&self) -> &[Value] {
        &self.0
    }
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_rev_enumerator(|this| Box::new(this.0.iter().cloned()))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.0.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_repr(&Value::from_dyn_object(Arc::clone(self)), f)
    }
}
