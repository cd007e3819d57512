//! The compiled policy document: what the filter reads from shared data.
//!
//! A document holds named policies and ordered rules that choose one for each request, and may hold a shadow: a second set of
//! both, evaluated for a share of the requests and only counted. The bridge makes it from the JSON that people write and
//! refuses what cannot work, so everything here is in range.

mod codec;
mod matching;
mod policy;

use bincode::{Decode, Encode};

pub use matching::{Facts, HeaderMatch, HeaderTest, Match, Rule, Selection};
pub use policy::{
    Affinity, Busy, Disaggregation, DisaggregationMode, Eligibility, ExplainLevel, LabelRule, Mode, OverLimit,
    Overload, Policy, Roles, SessionKey, Topology,
};

/// A whole document.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Document {
    /// Counts the documents put in force by a bridge, from 1.
    pub version: u64,
    /// Decides.
    pub live: RuleSet,
    /// Is only counted.
    pub shadow: Option<Shadow>,
}

/// Policies and the rules that choose among them.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct RuleSet {
    /// First match wins.
    pub rules: Vec<Rule>,
    /// Rules name them by position.
    pub policies: Vec<Policy>,
    /// Position of the policy of requests that no rule matches.
    pub default_policy: u16,
}

/// A rule set without effect.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Shadow {
    /// Share of requests it is evaluated for, in millionths.
    pub sample_per_million: u32,
    /// The rule set.
    pub rules: RuleSet,
}

impl Default for Document {
    /// What is in force while there is no document: one policy, `kv` with default weights.
    fn default() -> Self {
        Self { version: 0, live: RuleSet::default(), shadow: None }
    }
}

impl Default for RuleSet {
    fn default() -> Self {
        Self { rules: Vec::new(), policies: vec![Policy::named("default")], default_policy: 0 }
    }
}
