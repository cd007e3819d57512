//! Floats that minijinja would print otherwise than Python does.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{DynObject, Object, ObjectRepr};

use super::repr::float_repr;

/// A float whose Python form has an exponent or is not a number. Numbers print themselves in the middle of minijinja's
/// own operators (`~`), where nothing can be put in their place; an object can.
#[derive(Clone, Copy, Debug)]
pub struct Float(f64);

impl Float {
    /// A float as a template value: a plain number when that prints as in Python.
    pub fn value(float: f64) -> Value {
        let plain = float == 0.0 || (1e-4..1e16).contains(&float.abs());
        if plain { Value::from(float) } else { Value::from_object(Self(float)) }
    }

    /// The float that `value` is.
    pub fn of(value: &Value) -> Option<f64> {
        match value.downcast_object_ref::<Self>() {
            Some(float) => Some(float.0),
            None if value.is_number() && !value.is_integer() => f64::try_from(value.clone()).ok(),
            None => None,
        }
    }
}

impl Object for Float {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        self.0.partial_cmp(&other.downcast_ref::<Self>()?.0)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&float_repr(self.0))
    }
}
