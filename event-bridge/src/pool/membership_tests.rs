use std::collections::BTreeSet;
use std::time::Duration;

use kv_routing::target::Slot;
use kv_routing::wire::{Bootstrap, Health, Role, SourceState, UnixMillis};
use tokio::time::Instant;

use super::membership::{Changes, Membership};
use super::table;
use crate::config::{RankSpec, WorkerAddress, WorkerSpec, test_worker};
use crate::probe::{EngineHandoff, EngineLoad, MemberId, ProbeReport};

const DRAIN: Duration = Duration::from_secs(2);

fn worker(port: u16) -> WorkerSpec {
    test_worker(&format!("10.0.0.1:{port}"))
}

fn address(port: u16) -> WorkerAddress {
    WorkerAddress::parse(&format!("10.0.0.1:{port}")).unwrap()
}

fn with_ranks(port: u16, ranks: &[u32]) -> WorkerSpec {
    let ranks = ranks.iter().map(|rank| RankSpec { rank: Some(*rank), events: None }).collect();
    WorkerSpec { ranks, ..worker(port) }
}

/// Membership with the endpoint file and table it would lead to.
struct World {
    membership: Membership,
    file: BTreeSet<WorkerAddress>,
    table: BTreeSet<String>,
    version: u64,
    now: Instant,
}

impl World {
    fn new() -> Self {
        let (file, table) = (BTreeSet::new(), BTreeSet::new());
        Self { membership: Membership::default(), file, table, version: 0, now: Instant::now() }
    }

    fn apply(&mut self, workers: Vec<WorkerSpec>) -> Changes {
        self.membership.apply(workers, self.now, UnixMillis(1))
    }

    fn write_file(&mut self) {
        self.file = self.membership.endpoints(false).iter().map(|endpoint| endpoint.address).collect();
        self.membership.listed();
        self.check();
    }

    fn publish_table(&mut self) {
        let table = table::build(self.membership.members(), None);
        self.table = table.targets.into_iter().map(|target| target.endpoint).collect();
        self.version += 1;
        self.membership.table_published(self.version);
        self.check();
    }

    /// The rule everything here is about.
    fn check(&self) {
        let file: BTreeSet<String> = self.file.iter().map(ToString::to_string).collect();
        assert!(self.table.is_subset(&file), "{:?} is not within {file:?}", self.table);
    }

    fn expire(&mut self, acknowledged: u64) -> bool {
        self.membership.expire(self.now, DRAIN, |version| version <= acknowledged)
    }
}

#[test]
fn a_worker_enters_through_the_endpoint_file() {
    let mut world = World::new();
    let changes = world.apply(vec![worker(1)]);
    assert_eq!((changes.joined, changes.started.len()), (vec![(MemberId(1), worker(1))], 1));
    world.publish_table();
    assert!(world.table.is_empty(), "not before its endpoint is in the file");
    world.write_file();
    world.publish_table();
    assert_eq!(world.table, BTreeSet::from(["10.0.0.1:1".to_owned()]));
}

#[test]
fn a_worker_leaves_through_the_table() {
    let mut world = World::new();
    world.apply(vec![worker(1), worker(2)]);
    world.write_file();
    world.publish_table();
    let changes = world.apply(vec![worker(2)]);
    assert_eq!((changes.left, changes.ended), (vec![(MemberId(1), address(1))], vec![Slot(0)]));
    let endpoint = world.membership.endpoints(false)[0];
    assert_eq!((endpoint.address, endpoint.draining), (address(1), true));
    world.write_file();
    assert!(world.file.contains(&address(1)));
    assert!(!world.expire(u64::MAX), "no table without it was published yet");
    world.now += DRAIN;
    assert!(!world.expire(u64::MAX), "still none");
    world.publish_table();
    assert!(!world.expire(world.version - 1), "not acknowledged");
    world.now -= Duration::from_millis(1);
    assert!(!world.expire(world.version), "not drained");
    world.now += Duration::from_millis(1);
    assert!(world.expire(world.version));
    world.write_file();
    assert_eq!(world.file, BTreeSet::from([address(2)]));
}

#[test]
fn a_worker_that_returns_while_leaving_is_a_new_member_with_a_new_slot() {
    let mut world = World::new();
    world.apply(vec![worker(1)]);
    world.write_file();
    world.publish_table();
    world.apply(vec![]);
    world.publish_table();
    let changes = world.apply(vec![worker(1)]);
    assert_eq!(changes.joined, [(MemberId(2), worker(1))]);
    assert_eq!(changes.started[0].0, Slot(1), "messages about the earlier stay cannot be mistaken");
    world.publish_table();
    assert_eq!(world.table.len(), 1, "its endpoint never left the file");
    world.now += DRAIN;
    assert!(!world.expire(u64::MAX));
    assert!(!world.membership.endpoints(false)[0].draining);
}

#[test]
fn changed_ranks_are_other_targets_and_the_rest_stays() {
    let mut world = World::new();
    world.apply(vec![with_ranks(1, &[0, 1])]);
    let changes = world.apply(vec![with_ranks(1, &[1, 2])]);
    assert_eq!(changes.ended, [Slot(0)]);
    assert_eq!(
        changes.started.iter().map(|started| (started.0, started.1.rank)).collect::<Vec<_>>(),
        [(Slot(2), Some(2))]
    );
    assert!(changes.joined.is_empty() && changes.left.is_empty());
    let same = world.apply(vec![with_ranks(1, &[1, 2])]);
    assert_eq!(same, Changes::default());
}

#[test]
fn a_draining_worker_stays_in_file_and_table_and_is_marked_in_both() {
    let mut world = World::new();
    world.apply(vec![WorkerSpec { drain: true, ..worker(1) }]);
    world.write_file();
    assert!(world.membership.endpoints(false)[0].draining);
    let table = table::build(world.membership.members(), None);
    assert_eq!(table.targets[0].health, Health::Draining);
}

#[test]
fn probes_of_an_earlier_stay_are_ignored() {
    let mut world = World::new();
    world.apply(vec![worker(1)]);
    let report = |member, start| ProbeReport {
        member: MemberId(member),
        health: Health::Healthy,
        health_error: None,
        sources: None,
        load: Some(Ok(EngineLoad { process_start: Some(start), ..EngineLoad::default() })),
        handoff: None,
    };
    assert!(world.membership.report(report(7, 1.0), world.now).is_none());
    assert_eq!(world.membership.report(report(1, 1.0), world.now).unwrap().restarts, 0);
    assert_eq!(world.membership.report(report(1, 1.0), world.now).unwrap().restarts, 0);
    assert_eq!(world.membership.report(report(1, 2.0), world.now).unwrap().restarts, 1);
}

#[test]
fn the_time_of_a_source_state_is_that_of_its_last_change() {
    let mut world = World::new();
    world.apply(vec![worker(1)]);
    let mut refresh = |state, at| world.membership.refresh_sources(|_| Some(state), UnixMillis(at));
    assert!(refresh(SourceState::Exact, 5));
    assert!(!refresh(SourceState::Exact, 6));
    assert_eq!(world.membership.members().next().unwrap().targets[0].source, (SourceState::Exact, UnixMillis(5)));
}

/// Any order of changes, writes, tables and acknowledgements keeps the rule.
#[test]
fn no_history_puts_a_target_without_an_endpoint_into_the_table() {
    let mut random = 1_u64;
    let mut next = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    let (mut world, mut acknowledged) = (World::new(), 0);
    for _ in 0..20_000 {
        world.now += Duration::from_millis(next(900));
        match next(5) {
            0 => {
                let workers = (1..=6).filter(|_| next(2) == 0).map(worker).collect();
                world.apply(workers);
            }
            1 => world.write_file(),
            2 => world.publish_table(),
            3 => acknowledged = world.version,
            // The file is written only when members went or came, exactly as the pool does.
            _ => drop(world.expire(acknowledged)),
        }
    }
    assert!(world.version > 1000);
}

fn report(member: u64, handoff: EngineHandoff) -> ProbeReport {
    let member = MemberId(member);
    ProbeReport {
        member,
        health: Health::Healthy,
        health_error: None,
        load: None,
        sources: None,
        handoff: Some(Ok(handoff)),
    }
}

#[test]
fn prefill_workers_have_their_own_endpoint_file_and_say_where_they_hand_over() {
    let mut world = World::new();
    let prefill = WorkerSpec { role: Some(Role::Prefill), ..with_ranks(1, &[2, 3]) };
    world.apply(vec![prefill, worker(2)]);
    world.membership.listed();
    let ports = |world: &World, prefill| -> Vec<u16> {
        world.membership.endpoints(prefill).iter().map(|endpoint| endpoint.address.socket().port()).collect()
    };
    assert_eq!((ports(&world, true), ports(&world, false)), (vec![1], vec![2]));
    let bootstrap =
        |world: &World, at: usize| table::build(world.membership.members(), None).targets[at].bootstrap.clone();
    let expected = Bootstrap { host: "10.0.0.1".into(), port: 8998, ranks: 4, engine_id: None };
    assert_eq!((bootstrap(&world, 0), bootstrap(&world, 2)), (Some(expected), None));

    // What the engine says fills in what configuration leaves out.
    let told = EngineHandoff {
        role: Some(Role::Decode),
        bootstrap_port: Some(9000),
        ranks: Some(8),
        engine_ids: [(3, "e3".to_owned())].into(),
    };
    world.membership.report(report(1, told), world.now);
    let expected = Bootstrap { host: "10.0.0.1".into(), port: 9000, ranks: 8, engine_id: Some("e3".into()) };
    assert_eq!(bootstrap(&world, 1), Some(expected));
    world
        .membership
        .report(report(2, EngineHandoff { role: Some(Role::Prefill), ..EngineHandoff::default() }), world.now);
    assert_eq!((ports(&world, true), ports(&world, false)), (vec![1, 2], vec![]));
}
