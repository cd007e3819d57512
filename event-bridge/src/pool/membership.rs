//! Who is in the pool, and the order in which workers enter and leave.
//!
//! A target is in the target table only while its endpoint is in the endpoint file:
//!
//! - entering: the endpoint file first, then the table;
//! - leaving: the table first, with the endpoint marked as draining; the endpoint goes when every Envoy that can be
//!   reached has acknowledged a table without it and the drain time has passed.
//!
//! So Envoy can always connect to what the filter names, and requests under way finish.

use std::collections::BTreeMap;
use std::time::Duration;

use kv_routing::target::{Slot, TargetId};
use kv_routing::wire::{Health, Role, SourceState, UnixMillis};
use tokio::time::Instant;

use super::member::{Leaving, Member, MemberTarget};
use super::slots::Slots;
use crate::config::{RankSpec, WorkerAddress, WorkerSpec};
use crate::eds::Endpoint;
use crate::probe::{EngineHandoff, EngineLoad, MemberId, ProbeReport};

/// Workers of a pool.
#[derive(Debug, Default)]
pub(super) struct Membership {
    members: BTreeMap<WorkerAddress, Member>,
    slots: Slots,
    next_id: u64,
}

/// What a new set of workers asks for.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Changes {
    /// Workers to probe from now on.
    pub(super) joined: Vec<(MemberId, WorkerSpec)>,
    /// Workers to probe no longer.
    pub(super) left: Vec<(MemberId, WorkerAddress)>,
    /// Targets to follow from now on.
    pub(super) started: Vec<(Slot, RankSpec)>,
    /// Targets to forget.
    pub(super) ended: Vec<Slot>,
    /// Targets that got no slot.
    pub(super) slotless: Vec<WorkerAddress>,
}

impl Membership {
    /// Makes `workers` the whole set.
    pub(super) fn apply(&mut self, workers: Vec<WorkerSpec>, now: Instant, wall: UnixMillis) -> Changes {
        let mut changes = Changes::default();
        let mut wanted: BTreeMap<WorkerAddress, WorkerSpec> =
            workers.into_iter().map(|worker| (worker.address, worker)).collect();
        for (address, member) in &mut self.members {
            match wanted.remove(address) {
                Some(spec) if member.leaving.is_none() => {
                    update(member, spec, &mut self.slots, &mut changes, (now, wall));
                }
                Some(spec) => {
                    rejoin(member, spec, &mut self.next_id, &mut self.slots, &mut changes, (now, wall));
                }
                None if member.leaving.is_none() => leave(member, &mut self.slots, &mut changes, now),
                None => {}
            }
        }
        for (address, spec) in wanted {
            let mut member = new_member(next(&mut self.next_id), &spec);
            changes.joined.push((member.id, spec.clone()));
            update(&mut member, spec, &mut self.slots, &mut changes, (now, wall));
            self.members.insert(address, member);
        }
        changes
    }

    /// What the endpoint file should hold: that of prefill workers, or that of all others.
    pub(super) fn endpoints(&self, prefill: bool) -> Vec<Endpoint> {
        let endpoint = |member: &Member| Endpoint {
            address: member.spec.address,
            draining: member.spec.drain || member.leaving.is_some(),
        };
        let members = self.members.values().filter(|member| (member.role() == Role::Prefill) == prefill);
        members.map(endpoint).collect()
    }

    /// The endpoint file now holds every endpoint.
    pub(super) fn listed(&mut self) {
        self.members.values_mut().for_each(|member| member.listed = true);
    }

    /// The target table that leaves out leaving members now has this version.
    pub(super) fn table_published(&mut self, version: u64) {
        for leaving in self.members.values_mut().filter_map(|member| member.leaving.as_mut()) {
            leaving.table_version.get_or_insert(version);
        }
    }

    /// Lets members go that have left. `acknowledged` says whether every reachable Envoy has a table of that version.
    /// Returns whether any went, i.e. whether the endpoint file has to change.
    pub(super) fn expire(&mut self, now: Instant, drain: Duration, acknowledged: impl Fn(u64) -> bool) -> bool {
        let before = self.members.len();
        self.members.retain(|_, member| {
            !member.leaving.is_some_and(|leaving| {
                now.duration_since(leaving.since) >= drain && leaving.table_version.is_some_and(&acknowledged)
            })
        });
        self.members.len() != before
    }

    /// Takes a probe's report. Reports about an earlier stay are ignored.
    pub(super) fn report(&mut self, report: ProbeReport, now: Instant) -> Option<&Member> {
        let ProbeReport { member, health, health_error, load, sources, handoff } = report;
        let member = self.members.values_mut().find(|candidate| candidate.id == member)?;
        member.health = health;
        member.health_error = health_error;
        match load {
            Some(Ok(load)) => {
                let restarted = |(before, now): (f64, f64)| before != now;
                if member.load.process_start.zip(load.process_start).is_some_and(restarted) {
                    member.restarts += 1;
                }
                member.load = load;
                member.load_at = Some(now);
                member.load_error = None;
            }
            Some(Err(error)) => member.load_error = Some(error),
            None => {}
        }
        if let Some(answer) = sources {
            member.events_error = answer.err();
        }
        match handoff {
            Some(Ok(handoff)) => (member.handoff, member.handoff_error) = (handoff, None),
            Some(Err(error)) => member.handoff_error = Some(error),
            None => {}
        }
        Some(member)
    }

    /// Takes over the states of targets' sources; `None` for a target without events. Returns whether any changed.
    pub(super) fn refresh_sources(&mut self, state: impl Fn(Slot) -> Option<SourceState>, wall: UnixMillis) -> bool {
        let mut changed = false;
        for target in self.members.values_mut().flat_map(|member| &mut member.targets) {
            let now = state(target.slot).unwrap_or(SourceState::None);
            if target.source.0 != now {
                target.source = (now, wall);
                changed = true;
            }
        }
        changed
    }

    /// Slots of all targets.
    pub(super) fn slots(&self) -> BTreeMap<TargetId, Slot> {
        let of_member = |member: &Member| {
            let endpoint = member.spec.address.to_string();
            let named = |target: &MemberTarget| (TargetId::of(&endpoint, target.spec.rank), target.slot);
            member.targets.iter().map(named).collect::<Vec<_>>()
        };
        self.members.values().flat_map(of_member).collect()
    }

    /// Everyone, leaving members included, by address.
    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }
}

fn next(id: &mut u64) -> MemberId {
    *id += 1;
    MemberId(*id)
}

fn new_member(id: MemberId, spec: &WorkerSpec) -> Member {
    Member {
        id,
        spec: WorkerSpec { ranks: Vec::new(), ..spec.clone() },
        targets: Vec::new(),
        listed: false,
        leaving: None,
        health: Health::Unknown,
        health_error: None,
        load: EngineLoad::default(),
        load_at: None,
        load_error: None,
        events_error: None,
        handoff: EngineHandoff::default(),
        handoff_error: None,
        restarts: 0,
    }
}

/// A member that is leaving is wanted again: a new stay, but its endpoint is still there.
fn rejoin(
    member: &mut Member,
    spec: WorkerSpec,
    next_id: &mut u64,
    slots: &mut Slots,
    changes: &mut Changes,
    now: (Instant, UnixMillis),
) {
    let listed = member.listed;
    *member = Member { listed, ..new_member(next(next_id), &spec) };
    changes.joined.push((member.id, spec.clone()));
    update(member, spec, slots, changes, now);
}

fn leave(member: &mut Member, slots: &mut Slots, changes: &mut Changes, now: Instant) {
    member.leaving = Some(Leaving { since: now, table_version: None });
    changes.left.push((member.id, member.spec.address));
    for target in std::mem::take(&mut member.targets) {
        slots.release(member.spec.address, target.spec.rank, target.slot, now);
        changes.ended.push(target.slot);
    }
}

/// Takes over a new description. Ranks whose events come from elsewhere now are new targets.
fn update(
    member: &mut Member,
    spec: WorkerSpec,
    slots: &mut Slots,
    changes: &mut Changes,
    (now, wall): (Instant, UnixMillis),
) {
    let address = spec.address;
    let (kept, ended): (Vec<_>, Vec<_>) =
        std::mem::take(&mut member.targets).into_iter().partition(|target| spec.ranks.contains(&target.spec));
    for target in ended {
        slots.release(address, target.spec.rank, target.slot, now);
        changes.ended.push(target.slot);
    }
    member.targets = kept;
    for rank in &spec.ranks {
        if member.targets.iter().any(|target| target.spec == *rank) {
            continue;
        }
        let Some(slot) = slots.take(address, rank.rank, now) else {
            changes.slotless.push(address);
            continue;
        };
        changes.started.push((slot, rank.clone()));
        member.targets.push(MemberTarget { slot, spec: rank.clone(), source: (SourceState::None, wall) });
    }
    member.targets.sort_by_key(|target| target.spec.rank);
    if (member.spec.ask_sources, &member.spec.bootstrap, member.spec.role)
        != (spec.ask_sources, &spec.bootstrap, spec.role)
    {
        // Probed from now on with another question.
        changes.joined.push((member.id, spec.clone()));
    }
    member.spec = spec;
}
