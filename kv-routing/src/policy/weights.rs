//! Weights of the cost formula.

use bincode::{Decode, Encode};
use thiserror::Error;

/// Weights of [`super::price`], with Dynamo's names and defaults (`--router-*` flags) beside them.
#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
pub struct CostWeights {
    /// `c`, `kv-overlap-score-credit`: credit of a block in device memory. 1.
    pub device_credit: f64,
    /// `g`, `kv-overlap-score-credit-decay`: how fast that credit fades on targets with more prefill queued than the
    /// least loaded one; 1 halves it at one prompt's worth of excess. 0.
    pub credit_decay: f64,
    /// `a`, `prefill-load-scale`: weight of prefill against decode. 1.
    pub prefill_scale: f64,
    /// `h`, `host-cache-hit-weight`: credit of a block in host memory, 0 to 1. 0.75.
    pub host_credit: f64,
    /// `k`, `disk-cache-hit-weight`: credit of a block on disk, 0 to 1. 0.25.
    pub disk_credit: f64,
    /// `s`, `shared-cache-multiplier`: credit of a block in a cache all targets share. 0.5.
    pub shared_credit: f64,
    /// `r`, `decode-active-request-weight`: blocks that one active request counts for. 0.
    pub request_weight: f64,
    /// `T`, `temperature`: 0 takes the cheapest target, above 0 samples (see `super::pick`). 0.
    pub temperature: f64,
}

impl Default for CostWeights {
    fn default() -> Self {
        Self {
            device_credit: 1.0,
            credit_decay: 0.0,
            prefill_scale: 1.0,
            host_credit: 0.75,
            disk_credit: 0.25,
            shared_credit: 0.5,
            request_weight: 0.0,
            temperature: 0.0,
        }
    }
}

/// A weight outside its range.
#[derive(Debug, Error, PartialEq)]
#[error("weight `{field}` is {value}: it must be a number from 0 to {max}")]
pub struct WeightError {
    /// Name of the field of [`CostWeights`].
    pub field: &'static str,
    /// What it was set to.
    pub value: f64,
    /// Largest value allowed.
    pub max: f64,
}

impl CostWeights {
    /// Largest value of a weight without a bound of its own; keeps every cost finite.
    pub const MAX: f64 = 1e6;

    /// Checks every weight.
    ///
    /// # Errors
    /// [`WeightError`] for the first weight that is negative, too large, infinite or not a number.
    pub fn validate(self) -> Result<Self, WeightError> {
        let Self {
            device_credit,
            credit_decay,
            prefill_scale,
            host_credit,
            disk_credit,
            shared_credit,
            request_weight,
            temperature,
        } = self;
        let all = [
            ("device_credit", device_credit, Self::MAX),
            ("credit_decay", credit_decay, Self::MAX),
            ("prefill_scale", prefill_scale, Self::MAX),
            ("host_credit", host_credit, 1.0),
            ("disk_credit", disk_credit, 1.0),
            ("shared_credit", shared_credit, 1.0),
            ("request_weight", request_weight, Self::MAX),
            ("temperature", temperature, Self::MAX),
        ];
        match all.into_iter().find(|(_, value, max)| !(0.0..=*max).contains(value)) {
            Some((field, value, max)) => Err(WeightError { field, value, max }),
            None => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_bad_weights_are_named() {
        assert_eq!(CostWeights::default().validate(), Ok(CostWeights::default()));
        let negative = CostWeights { credit_decay: -0.1, ..CostWeights::default() };
        assert_eq!(negative.validate().unwrap_err().field, "credit_decay");
        let above = CostWeights { host_credit: 1.1, ..CostWeights::default() };
        assert_eq!(
            above.validate().unwrap_err().to_string(),
            "weight `host_credit` is 1.1: it must be a number from 0 to 1"
        );
        let nan = CostWeights { temperature: f64::NAN, ..CostWeights::default() };
        assert_eq!(nan.validate().unwrap_err().field, "temperature");
        let infinite = CostWeights { prefill_scale: f64::INFINITY, ..CostWeights::default() };
        assert_eq!(infinite.validate().unwrap_err().field, "prefill_scale");
    }
}
