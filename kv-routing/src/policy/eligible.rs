//! Which targets may be chosen at all.

use crate::wire::{Health, Role, TargetEntry};

/// What a target is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The whole request. A decode-only target can do it when there is no other.
    Whole,
    /// Prefill, to be handed over.
    Prefill,
    /// Decode of a handed-over prefill.
    Decode,
}

impl Phase {
    /// Rank of `role` for this phase, lower is better; `None`: unfit.
    fn fitness(self, role: Role) -> Option<u8> {
        match (self, role) {
            (Self::Whole, Role::Both) | (Self::Prefill, Role::Prefill) | (Self::Decode, Role::Decode) => Some(0),
            (Self::Whole, Role::Decode) | (Self::Prefill | Self::Decode, Role::Both) => Some(1),
            (Self::Whole, Role::Prefill) | (Self::Prefill, Role::Decode) | (Self::Decode, Role::Prefill) => None,
        }
    }
}

/// Rank of `health`, lower is better; `None`: never chosen. A draining target still answers, an unhealthy one does not.
fn standing(health: Health) -> Option<u8> {
    match health {
        Health::Healthy => Some(0),
        Health::Unknown => Some(1),
        Health::Draining => Some(2),
        Health::Unhealthy => None,
    }
}

/// Positions in `targets` of those that may be chosen for `phase`, in table order.
///
/// Health goes first: while one fit target is healthy, only healthy ones are returned, whatever their role; then not
/// yet probed ones; draining ones only when there is nothing else; unhealthy ones never. Among those the best-fitting role wins.
pub fn eligible(targets: &[TargetEntry], phase: Phase) -> Vec<u32> {
    eligible_where(targets, phase, |_| true)
}

/// As [`eligible`], among the targets that satisfy `may`.
pub(super) fn eligible_where(targets: &[TargetEntry], phase: Phase, may: impl Fn(&TargetEntry) -> bool) -> Vec<u32> {
    let grade = |target: &TargetEntry| {
        let grade = (standing(target.health)?, phase.fitness(target.role)?);
        may(target).then_some(grade)
    };
    let Some(best) = targets.iter().filter_map(grade).min() else {
        return Vec::new();
    };
    (0..).zip(targets).filter(|(_, target)| grade(target) == Some(best)).map(|(at, _)| at).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::target::Slot;

    pub(in crate::policy) fn target(slot: u16) -> TargetEntry {
        TargetEntry::new(Slot(slot), &format!("10.0.0.{slot}:8000"), None)
    }

    fn table(entries: &[(Health, Role)]) -> Vec<TargetEntry> {
        (0..).zip(entries).map(|(slot, &(health, role))| TargetEntry { health, role, ..target(slot) }).collect()
    }

    #[test]
    fn healthy_then_unknown_then_draining_and_never_unhealthy() {
        use Health::{Draining, Healthy, Unhealthy, Unknown};
        for (healths, expected) in [
            (vec![Unhealthy, Healthy, Unknown, Draining, Healthy], vec![1, 4]),
            (vec![Unhealthy, Unknown, Draining], vec![1]),
            (vec![Unhealthy, Draining], vec![1]),
            (vec![Unhealthy], vec![]),
            (vec![], vec![]),
        ] {
            let entries: Vec<_> = healths.into_iter().map(|health| (health, Role::Both)).collect();
            assert_eq!(eligible(&table(&entries), Phase::Whole), expected, "{entries:?}");
        }
    }

    #[test]
    fn roles_fit_phases() {
        let all =
            table(&[(Health::Healthy, Role::Prefill), (Health::Healthy, Role::Decode), (Health::Healthy, Role::Both)]);
        assert_eq!(eligible(&all, Phase::Whole), [2]);
        assert_eq!(eligible(&all, Phase::Prefill), [0]);
        assert_eq!(eligible(&all, Phase::Decode), [1]);
        assert_eq!(eligible(&all[..2], Phase::Whole), [1]);
        assert_eq!(eligible(&all[..1], Phase::Whole), Vec::<u32>::new());
    }
}
