//! Mode `direct`: the caller names the target.

use super::Refusal;
use crate::policy::decide::Rated;
use crate::wire::TargetEntry;

/// The named target, when it may be chosen.
///
/// The header's value is `ip:port` or, for an endpoint with data-parallel ranks, `ip:port#rank`.
pub(super) fn find<'a>(
    targets: &[TargetEntry],
    fit: &[Rated<'a>],
    header: &str,
    value: Option<&[u8]>,
) -> Result<Rated<'a>, Refusal> {
    let refuse = |status, message| Err(Refusal { status, retry_after_seconds: None, message });
    let Some(value) = value else {
        return refuse(400, format!("header `{header}` must name the worker, as `ip:port` or `ip:port#rank`"));
    };
    let Ok(name) = std::str::from_utf8(value) else {
        return refuse(400, format!("header `{header}` is not text"));
    };
    let (endpoint, rank) = match name.split_once('#') {
        None => (name, None),
        Some((endpoint, rank)) => match rank.parse::<u32>() {
            Ok(rank) => (endpoint, Some(rank)),
            Err(_) => return refuse(400, format!("header `{header}`: `{rank}` is not a rank")),
        },
    };
    let named = |target: &TargetEntry| target.endpoint == endpoint && (rank.is_none() || target.rank == rank);
    if let Some(rated) = fit.iter().find(|rated| named(rated.target)) {
        return Ok(*rated);
    }
    if targets.iter().any(named) {
        return refuse(503, format!("worker `{name}`, named by header `{header}`, cannot take requests now"));
    }
    refuse(400, format!("header `{header}` names worker `{name}`, which this pool does not have"))
}
