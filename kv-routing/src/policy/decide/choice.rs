//! An order of priced targets to a decision.

use super::{Choice, Priced, Rung, Situation};

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
    let best = ranked.clone().next()?;
    let runner_up = ranked.clone().nth(1).map(|priced| (priced.position, priced.cost.total));
    let mut named: Vec<&Priced<'_>> = Vec::new();
    while named.len() < usize::from(endpoints.max(1)) {
        let Some(next) = ranked.next() else { break };
        if !named.iter().any(|before| before.target.endpoint == next.target.endpoint) {
            named.push(next);
        }
    }
    let uncached = (f64::from(situation.prompt_tokens) - best.cached).max(0.0);
    Some(Choice {
        target: best.position,
        order: named.into_iter().map(|priced| priced.position).collect(),
        rung: if best.predicted && rung == Rung::Exact { Rung::Predicted } else { rung },
        state: best.state,
        overlap: best.overlap,
        cost: best.cost,
        runner_up,
        prefill_tokens: uncached as u64,
    })
}
