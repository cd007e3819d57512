//! An order of priced targets to a decision.

use super::{Choice, Other, Priced, Rung, Situation};

/// The decision for targets in the `order` of their positions in `priced`, naming at most `endpoints` endpoints.
/// `None` when there is no target.
pub(in crate::policy) fn choice(
    situation: &Situation<'_>,
    endpoints: u8,
    rung: Rung,
    priced: &[Priced<'_>],
    order: &[u32],
) -> Option<Choice> {
    let mut ranked = order.iter().filter_map(|position| priced.get(*position as usize));
    let runner_up = ranked.clone().nth(1).map(|priced| (priced.position, priced.cost.total));
    let mut named: Vec<&Priced<'_>> = Vec::new();
    while named.len() < usize::from(endpoints.max(1)) {
        let Some(next) = ranked.next() else { break };
        if !named.iter().any(|before| before.target.endpoint == next.target.endpoint) {
            named.push(next);
        }
    }
    let mut others = named.iter().map(|priced| {
        let predicted = priced.predicted && rung == Rung::Exact;
        let uncached = (f64::from(situation.prompt_tokens) - priced.cached).max(0.0);
        Other {
            target: priced.position,
            rung: if predicted { Rung::Predicted } else { rung },
            state: priced.state,
            overlap: priced.overlap,
            cost: priced.cost,
            prefill_tokens: uncached as u64,
        }
    });
    let Other { target, rung, state, overlap, cost, prefill_tokens } = others.next()?;
    let others = others.collect();
    let order = named.iter().map(|priced| priced.position).collect();
    Some(Choice { target, order, rung, state, overlap, cost, runner_up, prefill_tokens, others })
}
