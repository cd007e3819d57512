//! Who may be chosen under a policy.

use crate::policy::Situation;
use crate::policy::decide::{Rated, rate};
use crate::policy::document::{Busy, Policy};
use crate::policy::eligible::eligible_where;

/// Positions of targets with an allowed role and the required labels, and the best health and role among those.
pub(super) fn candidates(situation: &Situation<'_>, policy: &Policy) -> Vec<u32> {
    let rules = &policy.eligibility;
    eligible_where(situation.targets, situation.phase, |target| {
        rules.roles.allow(target.role) && rules.required_labels.iter().all(|rule| rule.holds(&target.labels))
    })
}

/// Those of them with an allowed state.
pub(super) fn fit<'a>(situation: &Situation<'a>, policy: &Policy) -> Vec<Rated<'a>> {
    let rules = &policy.eligibility;
    let mut rated = rate(situation, &candidates(situation, policy));
    if !rules.states.is_empty() {
        rated.retain(|rated| rules.states.contains(&rated.state));
    }
    rated
}

/// Whether a target is over any threshold. A threshold that needs a number nobody knows does not hold.
pub(super) fn busy(rated: &Rated<'_>, busy: &Busy) -> bool {
    let Busy { decode_blocks_share, prefill_tokens, prefill_steps, waiting, kv_usage } = *busy;
    let Rated { target, load, .. } = rated;
    let share = (target.capacity_blocks > 0).then(|| load.decode_blocks / target.capacity_blocks as f64);
    let steps = (target.max_batched_tokens > 0).then(|| load.prefill_tokens as f64 / target.max_batched_tokens as f64);
    let over =
        |value: Option<f64>, most: Option<f64>| matches!((value, most), (Some(value), Some(most)) if value > most);
    over(share, decode_blocks_share)
        || over(steps, prefill_steps)
        || over(Some(f64::from(target.kv_usage)), kv_usage)
        || prefill_tokens.is_some_and(|most| load.prefill_tokens > most)
        || waiting.is_some_and(|most| target.waiting > most)
}
