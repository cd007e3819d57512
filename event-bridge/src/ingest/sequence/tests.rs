use std::time::{Duration, Instant};

use bytes::Bytes;

use super::*;
use crate::ingest::{GapPolicy, Reason};
use crate::stream::ReplayId;

/// A sequencer, and what it had done.
struct Rig {
    sequencer: Sequencer,
    now: Instant,
    /// Batches applied since the last clear, as (life, number).
    applied: Vec<(u8, u64)>,
    /// The latest replay asked for.
    asked: Option<(ReplayId, u64)>,
    origin: Option<Origin>,
}

/// A batch of the engine's `life`th process.
fn batch(life: u8, seq: u64) -> Batch {
    Batch::new(seq, Bytes::from(vec![life, seq as u8]))
}

impl Rig {
    fn new(access: Access) -> Self {
        Self::with(access, GapPolicy::Clear)
    }

    fn with(access: Access, policy: GapPolicy) -> Self {
        let sequencer = Sequencer::new(access, policy, Duration::from_secs(30), 100_000);
        let mut rig = Self { sequencer, now: Instant::now(), applied: Vec::new(), asked: None, origin: None };
        rig.connect();
        rig
    }

    fn take(&mut self, act: impl FnOnce(&mut Sequencer, Instant, &mut Vec<Step>)) {
        let mut steps = Vec::new();
        act(&mut self.sequencer, self.now, &mut steps);
        for step in steps {
            match step {
                Step::Apply(batch, origin) => {
                    self.applied.push((batch.payload[0], batch.seq));
                    self.origin = Some(origin);
                }
                Step::Clear => self.applied.clear(),
                Step::Replay { id, from } => self.asked = Some((id, from)),
            }
        }
    }

    fn connect(&mut self) {
        self.take(|sequencer, now, steps| sequencer.connected(now, steps));
    }

    fn live(&mut self, life: u8, seq: u64) {
        self.take(|sequencer, now, steps| sequencer.live(batch(life, seq), now, steps));
    }

    /// Takes the replay asked for, which must begin at `from`, and answers it.
    fn answer(&mut self, from: u64, life: u8, numbers: impl IntoIterator<Item = u64>, complete: bool) {
        let (id, asked) = self.asked.take().expect("no replay was asked for");
        assert_eq!(asked, from);
        for seq in numbers {
            self.take(|sequencer, now, steps| sequencer.replayed(id, batch(life, seq), now, steps));
            if self.asked.is_some() {
                return;
            }
        }
        self.take(|sequencer, now, steps| sequencer.replay_ended(id, complete, now, steps));
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.take(|sequencer, now, steps| sequencer.tick(now, steps));
    }

    fn standing(&self) -> Standing {
        self.sequencer.standing()
    }
}

fn life(life: u8, numbers: impl IntoIterator<Item = u64>) -> Vec<(u8, u64)> {
    numbers.into_iter().map(|seq| (life, seq)).collect()
}

#[test]
fn live_batches_wait_for_the_first_replay_and_follow_it() {
    let mut rig = Rig::new(Access::Replay);
    assert_eq!(rig.standing(), Standing::Warm(Reason::Synchronizing));
    rig.live(1, 3);
    rig.live(1, 4);
    assert_eq!(rig.sequencer.held(), 2);
    rig.answer(0, 1, 0..4, true);
    assert_eq!(rig.applied, life(1, 0..5));
    assert_eq!(rig.standing(), Standing::Exact);
    rig.live(1, 5);
    assert_eq!(rig.applied, life(1, 0..6));
}

#[test]
fn a_replay_that_begins_late_leaves_the_history_incomplete_until_the_engine_empties_its_cache() {
    let mut rig = Rig::new(Access::Replay);
    rig.live(1, 9);
    rig.answer(0, 1, 7..10, true);
    assert_eq!(rig.standing(), Standing::Warm(Reason::HistoryTrimmed));
    let origin = rig.origin.unwrap();
    rig.sequencer.heal(origin.era);
    assert_eq!(rig.standing(), Standing::Exact);
}

#[test]
fn what_a_batch_says_of_the_history_is_not_taken_for_what_came_after_it() {
    let mut rig = Rig::new(Access::Live);
    rig.live(1, 0);
    let before = rig.origin.unwrap().era;
    rig.live(1, 5);
    assert_eq!(rig.standing(), Standing::Warm(Reason::BatchesLost));
    rig.sequencer.heal(before);
    assert_eq!(rig.standing(), Standing::Warm(Reason::BatchesLost));
    let mut rig = Rig::new(Access::Live);
    rig.live(1, 0);
    let before = rig.origin.unwrap().era;
    rig.connect();
    rig.live(2, 0);
    rig.sequencer.weaken(before, Reason::EventsLost);
    assert_eq!(rig.standing(), Standing::Exact);
}

#[test]
fn nothing_is_exact_before_a_live_batch_showed_that_both_sockets_are_one_engines() {
    let mut rig = Rig::new(Access::Replay);
    rig.answer(0, 1, 0..3, true);
    assert_eq!(rig.standing(), Standing::Warm(Reason::Unconfirmed));
    rig.live(1, 3);
    assert_eq!(rig.standing(), Standing::Warm(Reason::Unconfirmed));
    // The audit that settles it comes soon, however busy the stream is, and holds nothing back.
    rig.pass(Duration::from_millis(600));
    rig.live(1, 4);
    rig.pass(Duration::from_millis(600));
    rig.live(1, 5);
    assert_eq!(rig.applied, life(1, 0..6));
    // It begins where live batches were put on replayed ones.
    rig.answer(2, 1, 2..6, true);
    assert_eq!(rig.standing(), Standing::Exact);
}

#[test]
fn a_gap_is_filled_from_the_last_batch_on() {
    let mut rig = Rig::new(Access::Replay);
    rig.answer(0, 1, 0..3, true);
    rig.live(1, 6);
    assert_eq!(rig.standing(), Standing::Warm(Reason::Checking));
    rig.live(1, 7);
    rig.answer(2, 1, 2..7, true);
    assert_eq!(rig.applied, life(1, 0..8));
    assert_eq!((rig.sequencer.counters().gaps, rig.sequencer.counters().restarts), (1, 0));
}

#[test]
fn another_process_is_known_by_its_batches_and_not_by_its_numbers() {
    // After a reconnect the numbers seem to go on, but batch 2 is another one.
    let mut rig = Rig::new(Access::Replay);
    rig.answer(0, 1, 0..3, true);
    rig.connect();
    rig.live(2, 3);
    rig.answer(2, 2, 2..4, true);
    assert!(rig.applied.is_empty());
    rig.answer(0, 2, 0..4, true);
    assert_eq!(rig.applied, life(2, 0..4));
    assert_eq!(rig.sequencer.counters().restarts, 1);
    // It has published less than the former one: only the end marker comes.
    rig.connect();
    rig.answer(3, 3, [], true);
    rig.answer(0, 3, 0..1, true);
    assert_eq!(rig.applied, life(3, 0..1));
    // So much more that its buffer begins behind the last batch.
    rig.connect();
    rig.answer(0, 4, 5..9, true);
    rig.answer(0, 4, 5..9, true);
    assert_eq!(rig.applied, life(4, 5..9));
    assert_eq!(rig.standing(), Standing::Warm(Reason::HistoryTrimmed));
    assert_eq!((rig.sequencer.counters().restarts, rig.sequencer.counters().losses), (2, 1));
}

#[test]
fn a_gap_that_the_replay_buffer_has_no_more_is_a_loss_by_the_gap_policy() {
    for (policy, applied, standing) in [
        (GapPolicy::Clear, life(1, 8..11), Standing::Warm(Reason::HistoryTrimmed)),
        (GapPolicy::Keep, life(1, (0..3).chain(8..11)), Standing::Stale(Reason::BatchesLost)),
    ] {
        let trimmed = || {
            let mut rig = Rig::with(Access::Replay, policy);
            rig.answer(0, 1, 0..3, true);
            rig.live(1, 9);
            rig.answer(2, 1, 8..10, true);
            rig.live(1, 10);
            rig
        };
        let mut rig = trimmed();
        rig.answer(0, 1, 8..11, true);
        assert_eq!((rig.applied.clone(), rig.standing()), (applied, standing));
        assert_eq!((rig.sequencer.counters().restarts, rig.sequencer.counters().losses), (0, 1));
        // The engine has everything after all; only the answer before lacked it.
        let mut rig = trimmed();
        rig.answer(0, 1, 0..11, true);
        assert_eq!((rig.applied.clone(), rig.standing()), (life(1, 0..11), Standing::Exact));
    }
}

#[test]
fn numbers_that_go_back_without_a_new_connection_are_looked_into() {
    let mut rig = Rig::new(Access::Replay);
    rig.answer(0, 1, 0..30, true);
    rig.live(2, 5);
    // The answer must contain the live batch, so it begins there.
    rig.answer(5, 2, 5..6, true);
    assert_eq!(rig.asked.unwrap().1, 0);
    rig.answer(0, 2, 0..6, true);
    assert_eq!(rig.applied, life(2, 0..6));
    // During a replay as well.
    rig.connect();
    rig.live(2, 7);
    rig.live(3, 0);
    rig.answer(0, 3, 0..1, true);
    rig.answer(0, 3, 0..1, true);
    assert_eq!(rig.applied, life(3, 0..1));
}

#[test]
fn late_duplicates_change_nothing() {
    let mut rig = Rig::new(Access::Replay);
    rig.answer(0, 1, 0..5, true);
    for seq in [4, 0, 2] {
        rig.live(1, seq);
    }
    assert_eq!(rig.asked, None);
    assert_eq!(rig.applied, life(1, 0..5));
    assert_eq!(rig.sequencer.counters().duplicates, 3);
}

#[test]
fn live_batches_of_a_former_connection_are_not_merged() {
    let mut rig = Rig::new(Access::Replay);
    rig.live(1, 1);
    rig.connect();
    rig.answer(0, 2, 0..1, true);
    assert_eq!(rig.applied, life(2, 0..1));
}

#[test]
fn a_replay_endpoint_of_another_engine_is_found_out_and_left_alone() {
    let mut rig = Rig::new(Access::Replay);
    rig.live(1, 8);
    // Its newest batch is older than what was seen live.
    for seq in 9..20 {
        while let Some((_, from)) = rig.asked {
            rig.answer(from, 9, from..3, true);
        }
        rig.live(1, seq);
    }
    assert_eq!((rig.asked, rig.sequencer.distrusted), (None, true));
    assert_eq!(rig.standing(), Standing::Warm(Reason::ReplayContradicts));
    // What follows is taken from the live socket alone.
    rig.live(1, 20);
    rig.live(1, 21);
    assert_eq!(rig.applied.last(), Some(&(1, 21)));
    assert!(rig.applied.iter().all(|(life, _)| *life == 1), "{:?}", rig.applied);
    assert_eq!(rig.standing(), Standing::Warm(Reason::ReplayContradicts));
    rig.pass(Duration::from_secs(100));
    assert_eq!(rig.asked, None);
}

#[test]
fn a_wrong_endpoint_with_a_longer_history_does_not_swallow_live_batches() {
    let mut rig = Rig::new(Access::Replay);
    rig.answer(0, 9, 0..50, true);
    assert_eq!(rig.standing(), Standing::Warm(Reason::Unconfirmed));
    for seq in 10..30 {
        rig.live(1, seq);
        while let Some((_, from)) = rig.asked {
            rig.answer(from, 9, from..50, true);
        }
    }
    assert_eq!(rig.standing(), Standing::Warm(Reason::ReplayContradicts));
    assert!(rig.applied.iter().all(|(life, _)| *life == 1), "{:?}", rig.applied);
}

#[test]
fn without_an_end_marker_it_is_asked_again_until_nothing_new_comes() {
    let mut rig = Rig::new(Access::Replay);
    rig.live(1, 9);
    rig.answer(0, 1, 0..4, false);
    rig.answer(3, 1, 3..6, false);
    for _ in 0..MAX_ATTEMPTS - 1 {
        rig.answer(5, 1, 5..6, false);
    }
    rig.answer(5, 1, 5..10, true);
    assert_eq!(rig.applied, life(1, 0..10));
    assert_eq!(rig.standing(), Standing::Exact);
}

#[test]
fn a_hole_that_no_replay_fills_is_a_loss() {
    let mut rig = Rig::new(Access::Replay);
    rig.answer(0, 1, 0..2, true);
    rig.live(1, 3);
    // The first answer has something new, the others do not.
    for _ in 0..=MAX_ATTEMPTS {
        rig.answer(1, 1, [1, 3, 4], true);
    }
    assert_eq!(rig.asked, None);
    assert_eq!(rig.applied, life(1, 3..5));
    assert_eq!(rig.standing(), Standing::Warm(Reason::BatchesLost));
    // By the other policy what was known is kept, and doubted.
    let mut rig = Rig::with(Access::Replay, GapPolicy::Keep);
    rig.answer(0, 1, 0..2, true);
    rig.live(1, 3);
    for _ in 0..MAX_ATTEMPTS {
        rig.answer(1, 1, [1, 3], true);
    }
    assert_eq!(rig.applied, [(1, 0), (1, 1), (1, 3)]);
    assert_eq!(rig.standing(), Standing::Stale(Reason::BatchesLost));
}

#[test]
fn an_endpoint_that_does_not_answer_is_asked_now_and_then() {
    let mut rig = Rig::new(Access::Replay);
    for _ in 0..MAX_ATTEMPTS {
        rig.answer(0, 1, [], false);
    }
    assert_eq!((rig.asked, rig.standing()), (None, Standing::Warm(Reason::ReplayUnanswered)));
    rig.pass(Duration::from_secs(31));
    rig.answer(0, 1, 0..3, true);
    assert_eq!(rig.applied, life(1, 0..3));
    rig.live(1, 3);
    rig.pass(Duration::from_secs(2));
    rig.answer(2, 1, 2..4, true);
    assert_eq!(rig.standing(), Standing::Exact);
}

#[test]
fn a_quiet_stream_is_audited_and_a_lost_tail_comes_back() {
    let mut rig = Rig::new(Access::Replay);
    rig.live(1, 0);
    rig.answer(0, 1, 0..1, true);
    assert_eq!(rig.standing(), Standing::Exact);
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.standing(), Standing::Exact);
    rig.answer(0, 1, 0..1, true);
    rig.pass(Duration::from_secs(29));
    assert_eq!(rig.asked, None);
    rig.pass(Duration::from_secs(2));
    rig.answer(0, 1, 0..4, true);
    assert_eq!(rig.applied, life(1, 0..4));
    // A replay that is never heard of again is over at some time.
    rig.pass(Duration::from_secs(31));
    assert!(rig.asked.is_some());
    rig.pass(REPLAY_TIMEOUT + Duration::from_secs(1));
    rig.answer(3, 1, 3..5, true);
    assert_eq!(rig.applied, life(1, 0..5));
}

#[test]
fn held_batches_are_bounded_and_what_had_no_room_is_asked_for() {
    let mut rig = Rig::new(Access::Replay);
    for seq in 1..2000 {
        rig.live(1, seq);
    }
    // Two bytes each, and what it takes to hold them.
    assert_eq!(rig.sequencer.held(), 100_000 / 186);
    rig.answer(0, 1, 0..1, true);
    // The complete answer lacks live batches seen before: it is asked for the rest.
    rig.answer(0, 1, 0..2000, true);
    while let Some((_, from)) = rig.asked {
        rig.answer(from, 1, from..2000, true);
    }
    assert_eq!(rig.applied, life(1, 0..2000));
    assert_eq!(rig.sequencer.held(), 0);
}

#[test]
fn without_replays_every_doubt_is_a_loss() {
    let mut rig = Rig::new(Access::Live);
    assert_eq!(rig.standing(), Standing::None(Reason::NoEvents));
    rig.live(1, 0);
    rig.live(1, 1);
    assert_eq!(rig.standing(), Standing::Exact);
    rig.live(1, 3);
    assert_eq!((rig.applied.clone(), rig.standing()), (life(1, 3..4), Standing::Warm(Reason::BatchesLost)));
    // A new connection, even when numbers go on.
    rig.connect();
    assert!(rig.applied.is_empty());
    rig.live(1, 4);
    assert_eq!(rig.standing(), Standing::Warm(Reason::HistoryTrimmed));
    // A new process seen from its first batch on.
    rig.live(2, 0);
    assert_eq!((rig.applied.clone(), rig.standing()), (life(2, 0..1), Standing::Exact));
    rig.live(2, 0);
    assert_eq!(rig.applied, life(2, 0..1));
}

#[test]
fn a_polled_buffer_loses_nothing_with_its_connection() {
    let mut rig = Rig::new(Access::Polled);
    rig.live(1, 0);
    rig.sequencer.disconnected();
    assert_eq!(rig.standing(), Standing::Stale(Reason::Disconnected));
    rig.connect();
    rig.live(1, 1);
    assert_eq!((rig.applied.clone(), rig.standing()), (life(1, 0..2), Standing::Exact));
    rig.live(1, 5);
    assert_eq!((rig.applied.clone(), rig.standing()), (life(1, 5..6), Standing::Warm(Reason::BatchesLost)));
    rig.live(2, 0);
    assert_eq!((rig.applied.clone(), rig.standing()), (life(2, 0..1), Standing::Exact));
}

#[test]
fn a_polled_engine_that_is_started_anew_is_known_although_it_begins_with_the_same_event() {
    let mut rig = Rig::new(Access::Polled);
    rig.live(1, 0);
    rig.live(1, 1);
    rig.sequencer.disconnected();
    rig.connect();
    // The dead process's blocks are not vouched for before an event says which process this is.
    assert_eq!(rig.standing(), Standing::Warm(Reason::Checking));
    rig.live(1, 0);
    assert_eq!((rig.applied.clone(), rig.standing()), (life(1, 0..1), Standing::Exact));
    assert_eq!((rig.sequencer.counters().restarts, rig.sequencer.counters().duplicates), (1, 0));
    // Its second event is the same as well, and no gap.
    rig.live(1, 1);
    assert_eq!((rig.applied.clone(), rig.standing()), (life(1, 0..2), Standing::Exact));
}

#[test]
fn a_lost_answer_of_a_polled_engine_is_a_loss_unless_the_numbers_go_on() {
    let lost = |then: u64| {
        let mut rig = Rig::new(Access::Polled);
        rig.live(1, 0);
        rig.sequencer.answer_lost();
        assert_eq!(rig.standing(), Standing::Stale(Reason::Disconnected));
        rig.connect();
        assert_eq!(rig.standing(), Standing::Warm(Reason::Checking));
        rig.live(1, then);
        (rig.applied.clone(), rig.standing())
    };
    assert_eq!(lost(1), (life(1, 0..2), Standing::Exact));
    assert_eq!(lost(2), (life(1, 2..3), Standing::Warm(Reason::BatchesLost)));
    assert_eq!(lost(0), (life(1, 0..1), Standing::Exact));
    // An engine that was away as well may be another process, whose first event is in the lost answer.
    let mut rig = Rig::new(Access::Polled);
    rig.live(1, 0);
    rig.sequencer.answer_lost();
    rig.sequencer.disconnected();
    rig.connect();
    rig.live(2, 1);
    assert_eq!((rig.applied.clone(), rig.standing()), (life(2, 1..2), Standing::Warm(Reason::BatchesLost)));
}

#[test]
fn a_message_that_cannot_be_read_is_asked_for_or_leaves_a_doubt() {
    let mut rig = Rig::new(Access::Replay);
    rig.live(1, 0);
    rig.answer(0, 1, 0..1, true);
    rig.take(|sequencer, now, steps| sequencer.unread(now, steps));
    assert_eq!(rig.standing(), Standing::Warm(Reason::Checking));
    // During that replay another one: it is asked for again.
    rig.take(|sequencer, now, steps| sequencer.unread(now, steps));
    rig.answer(0, 1, 0..2, true);
    rig.answer(1, 1, 1..3, true);
    assert_eq!(rig.applied, life(1, 0..3));
    let mut rig = Rig::new(Access::Live);
    rig.live(1, 0);
    rig.take(|sequencer, now, steps| sequencer.unread(now, steps));
    assert_eq!(rig.standing(), Standing::Warm(Reason::EventsLost));
    let mut rig = Rig::new(Access::Polled);
    rig.live(1, 0);
    rig.take(|sequencer, now, steps| sequencer.unread(now, steps));
    assert_eq!(rig.standing(), Standing::Warm(Reason::Checking));
    rig.live(1, 1);
    assert_eq!(rig.standing(), Standing::Exact);
}

#[test]
fn another_process_start_is_looked_into_unless_it_was_noticed() {
    let changed = |rig: &mut Rig, before: Instant| {
        rig.take(|sequencer, now, steps| sequencer.process_changed(before, now, steps));
    };
    let mut rig = Rig::new(Access::Replay);
    rig.live(1, 0);
    rig.answer(0, 1, 0..1, true);
    let connected = rig.now;
    rig.pass(Duration::from_millis(500));
    changed(&mut rig, connected);
    assert_eq!(rig.asked, None);
    changed(&mut rig, connected + Duration::from_millis(1));
    rig.answer(0, 2, 0..3, true);
    rig.answer(0, 2, 0..3, true);
    assert_eq!(rig.applied, life(2, 0..3));

    let mut rig = Rig::new(Access::Live);
    rig.live(1, 0);
    let later = rig.now + Duration::from_millis(1);
    changed(&mut rig, later);
    assert_eq!((rig.applied.clone(), rig.standing()), (Vec::new(), Standing::None(Reason::NoEvents)));
    rig.live(2, 0);
    assert_eq!((rig.applied.clone(), rig.standing()), (life(2, 0..1), Standing::Exact));

    let mut rig = Rig::new(Access::Polled);
    rig.live(1, 0);
    let began = rig.now;
    changed(&mut rig, began);
    assert_eq!(rig.standing(), Standing::Exact);
    changed(&mut rig, began + Duration::from_millis(1));
    assert_eq!(rig.standing(), Standing::Warm(Reason::Checking));
}

#[test]
fn a_garbled_live_batch_is_fetched_again_once() {
    let mut rig = Rig::new(Access::Replay);
    rig.live(1, 0);
    rig.answer(0, 1, 0..1, true);
    rig.live(1, 1);
    assert_eq!(rig.sequencer.undecodable(rig.origin.unwrap()), Verdict::BeginAnew);
    rig.take(|sequencer, now, steps| sequencer.forget_and_begin_anew(now, steps));
    rig.answer(0, 1, 0..2, true);
    assert_eq!(rig.applied, life(1, 0..2));
    // Out of the buffer it is no better.
    assert_eq!(rig.sequencer.undecodable(rig.origin.unwrap()), Verdict::Clear);
    assert_eq!(rig.standing(), Standing::Warm(Reason::EventsLost));
    rig.live(1, 2);
    assert_eq!(rig.sequencer.undecodable(rig.origin.unwrap()), Verdict::Clear);
}

#[test]
fn an_engine_that_had_published_nothing_and_then_more_than_it_keeps_is_not_known_from_its_start() {
    let mut rig = Rig::new(Access::Replay);
    rig.answer(0, 1, [], true);
    rig.connect();
    for _ in 0..=MAX_ATTEMPTS {
        rig.answer(0, 1, 4..8, true);
    }
    assert_eq!(rig.applied, life(1, 4..8));
    assert_eq!(rig.standing(), Standing::Warm(Reason::BatchesLost));
    // That replays agree with each other says nothing about the live socket.
    let origin = rig.origin.unwrap();
    rig.sequencer.heal(origin.era);
    assert_eq!(rig.standing(), Standing::Warm(Reason::Unconfirmed));
}

#[test]
fn a_process_that_took_over_behind_a_replay_being_merged_is_found_out() {
    let mut rig = Rig::new(Access::Replay);
    let (id, _) = rig.asked.take().unwrap();
    for seq in 0..3 {
        rig.take(|sequencer, now, steps| sequencer.replayed(id, batch(1, seq), now, steps));
    }
    (0..4).for_each(|seq| rig.live(2, seq));
    rig.take(|sequencer, now, steps| sequencer.replay_ended(id, true, now, steps));
    // The new one's fourth batch would follow the old one's third.
    assert_eq!(rig.applied, life(1, 0..3));
    assert_eq!(rig.standing(), Standing::Warm(Reason::Checking));
    rig.answer(0, 2, 0..4, true);
    rig.answer(0, 2, 0..4, true);
    assert_eq!((rig.applied.clone(), rig.standing()), (life(2, 0..4), Standing::Exact));
}

#[test]
fn live_batches_that_come_long_after_their_replay_are_asked_about_once() {
    let mut rig = Rig::new(Access::Replay);
    let (id, _) = rig.asked.take().unwrap();
    for seq in 0..40 {
        rig.take(|sequencer, now, steps| sequencer.replayed(id, batch(1, seq), now, steps));
    }
    (5..9).for_each(|seq| rig.live(1, seq));
    rig.take(|sequencer, now, steps| sequencer.replay_ended(id, true, now, steps));
    // Its buffer may have lost them since; that it has the last one is enough.
    rig.answer(5, 1, 7..40, true);
    assert_eq!((rig.applied.clone(), rig.standing()), (life(1, 0..40), Standing::Exact));
}

#[test]
fn live_batches_that_seem_to_follow_a_replay_are_not_believed_before_a_replay_shows_both() {
    let mut rig = Rig::new(Access::Replay);
    rig.answer(0, 1, 0..1, true);
    // Another process, whose first batch got lost.
    rig.live(2, 1);
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.standing(), Standing::Warm(Reason::Unconfirmed));
    rig.answer(0, 2, 0..2, true);
    rig.answer(0, 2, 0..2, true);
    assert_eq!((rig.applied.clone(), rig.standing()), (life(2, 0..2), Standing::Warm(Reason::Unconfirmed)));
    rig.live(2, 1);
    rig.pass(Duration::from_secs(2));
    rig.answer(1, 2, 1..2, true);
    assert_eq!(rig.standing(), Standing::Exact);
}

#[test]
fn batches_held_from_a_process_that_is_gone_are_not_left_on_top_of_its_successors() {
    let mut rig = Rig::new(Access::Replay);
    (2..4).for_each(|seq| rig.live(2, seq));
    rig.answer(0, 3, 0..2, true);
    assert_eq!(rig.standing(), Standing::Warm(Reason::Unconfirmed));
    rig.connect();
    rig.live(3, 3);
    // The batch that they were put on is there, and one that the live socket has. They are not.
    rig.answer(1, 3, 1..4, true);
    rig.answer(0, 3, 0..4, true);
    assert_eq!((rig.applied.clone(), rig.standing()), (life(3, 0..4), Standing::Exact));
}

#[test]
fn what_a_new_beginning_is_to_replace_does_not_shorten_it() {
    let mut rig = Rig::new(Access::Replay);
    rig.live(1, 5);
    (0..MAX_ATTEMPTS).for_each(|_| rig.answer(0, 1, [], false));
    assert_eq!((rig.applied.clone(), rig.standing()), (life(1, [5]), Standing::Warm(Reason::ReplayUnanswered)));
    rig.pass(Duration::from_secs(30));
    // The engine answers again, so that everything is asked for; that it does not answer once more changes nothing.
    rig.answer(5, 1, [5], true);
    rig.answer(0, 1, [], false);
    rig.answer(0, 1, 0..6, true);
    assert_eq!(rig.applied, life(1, 0..6));
}
