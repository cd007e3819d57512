use super::*;
use crate::cache::{BlockHasher, CacheScope};

fn limits() -> SchedulerLimits {
    SchedulerLimits { block_size: 4, num_blocks: 65, max_num_seqs: 8, max_num_batched_tokens: 64, max_model_len: 256 }
}

fn scheduler(limits: SchedulerLimits) -> Scheduler {
    Scheduler::new(limits, BlockHasher::new("0"))
}

fn spec(from: u32, prompt: u32, max_tokens: u32) -> RequestSpec {
    RequestSpec {
        prompt: (from..from + prompt).collect(),
        scope: CacheScope::default(),
        max_tokens,
        stop_after: None,
        answer: Box::new(move |index| 10_000 + from + index as u32),
        hold: false,
        load: false,
    }
}

/// Runs one step; returns what was scheduled and what came out.
fn step(scheduler: &mut Scheduler) -> (Step, Vec<Emission>) {
    let step = scheduler.schedule();
    let emissions = scheduler.complete(&step);
    (step, emissions)
}

fn counts(step: &Step) -> Vec<usize> {
    step.scheduled.iter().map(|(_, count)| *count).collect()
}

#[test]
fn a_request_prefills_decodes_and_frees_its_blocks() {
    let mut scheduler = scheduler(limits());
    scheduler.add(RequestId(1), spec(0, 10, 3));
    let (first, emitted) = step(&mut scheduler);
    assert_eq!((counts(&first), first.prefill_tokens, first.decodes), (vec![10], 10, false));
    assert_eq!(emitted[0].output, Output { token: 10_000, index: 0, finish: None, cached_tokens: 0, held: None });
    let (second, _) = step(&mut scheduler);
    assert_eq!((counts(&second), second.prefill_tokens, second.decodes), (vec![1], 0, true));
    let (_, last) = step(&mut scheduler);
    assert_eq!(last[0].output.finish, Some(FinishReason::Length));
    assert!(step(&mut scheduler).0.is_empty());
    assert_eq!(scheduler.pool().free_blocks(), 64);
    // The last token's KV was never computed, so the third block (tokens 8..12) is full: 10 + 2 computed.
    assert_eq!(scheduler.pool().cached_hashes(), 3);
}

#[test]
fn long_prompts_are_cut_into_chunks_beside_running_decodes() {
    let mut scheduler = scheduler(SchedulerLimits { max_num_batched_tokens: 16, ..limits() });
    scheduler.add(RequestId(1), spec(0, 8, 20));
    step(&mut scheduler);
    scheduler.add(RequestId(2), spec(1_000, 40, 1));
    let schedules: Vec<Vec<usize>> = (0..3).map(|_| counts(&step(&mut scheduler).0)).collect();
    assert_eq!(schedules, vec![vec![1, 15], vec![1, 15], vec![1, 10]]);
}

#[test]
fn the_batch_limit_queues_in_order_of_arrival() {
    let mut scheduler = scheduler(SchedulerLimits { max_num_seqs: 2, ..limits() });
    for id in 0..4 {
        scheduler.add(RequestId(id), spec(1_000 * id as u32, 8, 2));
    }
    step(&mut scheduler);
    assert_eq!((scheduler.running(), scheduler.waiting()), (2, 2));
    let (_, done) = step(&mut scheduler);
    assert!(done.iter().all(|emission| emission.output.finish.is_some()));
    let (third, _) = step(&mut scheduler);
    assert_eq!(third.scheduled.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), vec![2, 3]);
}

#[test]
fn a_later_request_of_the_same_step_hits_the_earlier_one() {
    let mut scheduler = scheduler(limits());
    scheduler.add(RequestId(1), spec(0, 12, 1));
    scheduler.add(RequestId(2), spec(0, 12, 1));
    let (both, emitted) = step(&mut scheduler);
    assert_eq!(counts(&both), vec![12, 4]);
    assert_eq!(emitted.iter().map(|emission| emission.output.cached_tokens).collect::<Vec<_>>(), vec![0, 8]);
    let stats = scheduler.stats();
    assert_eq!((stats.prefix_queries, stats.prefix_hits), (24, 8));
}

#[test]
fn the_newest_request_is_preempted_and_resumes_with_its_answer_kept() {
    // Six usable blocks: two prompts of two blocks each, growing until they do not fit.
    let mut scheduler = scheduler(SchedulerLimits { num_blocks: 7, max_model_len: 24, ..limits() });
    scheduler.add(RequestId(1), spec(0, 8, 12));
    scheduler.add(RequestId(2), spec(1_000, 8, 12));
    let mut answers: std::collections::HashMap<u64, Vec<u32>> = Default::default();
    let mut finished = Vec::new();
    for _ in 0..200 {
        let (done, emitted) = step(&mut scheduler);
        if done.is_empty() {
            break;
        }
        for emission in emitted {
            answers.entry(emission.request.0).or_default().push(emission.output.token);
            if emission.output.finish.is_some() {
                finished.push((emission.request.0, emission.preemptions));
            }
        }
    }
    assert_eq!(finished.iter().map(|(id, _)| *id).collect::<Vec<_>>(), vec![1, 2]);
    assert_eq!(finished[0].1, 0);
    assert!(finished[1].1 > 0, "the second request gave way");
    assert_eq!(scheduler.stats().preemptions, u64::from(finished[1].1));
    assert_eq!(answers[&1], (10_000..10_012).collect::<Vec<_>>());
    assert_eq!(answers[&2], (11_000..11_012).collect::<Vec<_>>());
    assert_eq!(scheduler.pool().free_blocks(), 6);
}

#[test]
fn an_aborted_request_frees_its_blocks_whatever_its_state() {
    let mut scheduler = scheduler(SchedulerLimits { max_num_seqs: 1, ..limits() });
    scheduler.add(RequestId(1), spec(0, 8, 9));
    scheduler.add(RequestId(2), spec(100, 8, 9));
    let running = scheduler.schedule();
    scheduler.abort(RequestId(2));
    scheduler.abort(RequestId(1));
    assert!(scheduler.complete(&running).is_empty());
    assert_eq!((scheduler.running(), scheduler.waiting(), scheduler.pool().free_blocks()), (0, 0, 64));
}

#[test]
fn an_answer_ends_by_itself_or_at_the_context_limit() {
    let mut scheduler = scheduler(SchedulerLimits { max_model_len: 12, ..limits() });
    scheduler.add(RequestId(1), RequestSpec { stop_after: Some(2), ..spec(0, 8, 9) });
    scheduler.add(RequestId(2), spec(100, 8, 9));
    let mut ends = Vec::new();
    for _ in 0..6 {
        ends.extend(step(&mut scheduler).1.into_iter().filter_map(|emission| {
            emission.output.finish.map(|finish| (emission.request.0, emission.output.index, finish))
        }));
    }
    assert_eq!(ends, vec![(1, 1, FinishReason::Stop), (2, 3, FinishReason::Length)]);
}

#[test]
fn a_held_request_keeps_its_blocks_until_released() {
    let mut scheduler = scheduler(limits());
    scheduler.add(RequestId(1), RequestSpec { hold: true, ..spec(0, 10, 1) });
    let (_, emitted) = step(&mut scheduler);
    let held = emitted[0].output.held.clone().expect("held blocks");
    assert_eq!((held.len(), scheduler.held(), scheduler.pool().free_blocks()), (3, (1, 3), 61));
    assert!(!scheduler.pool_mut().reset(), "held blocks are in use");
    assert!(scheduler.release_held(RequestId(1)));
    assert!(!scheduler.release_held(RequestId(1)), "once");
    assert_eq!((scheduler.held(), scheduler.pool().free_blocks()), ((0, 0), 64));
    // They stay cached like those of any request.
    scheduler.add(RequestId(2), spec(0, 10, 1));
    assert_eq!(step(&mut scheduler).1[0].output.cached_tokens, 8);
}

#[test]
fn an_answer_that_ends_by_itself_is_not_held() {
    let mut scheduler = scheduler(limits());
    scheduler.add(RequestId(1), RequestSpec { hold: true, stop_after: Some(1), ..spec(0, 10, 1) });
    let (_, emitted) = step(&mut scheduler);
    assert_eq!(emitted[0].output.held, None);
    assert_eq!((scheduler.held(), scheduler.pool().free_blocks()), ((0, 0), 64));
}

#[test]
fn a_loading_request_waits_with_its_blocks_and_computes_only_the_last_token() {
    let mut scheduler = scheduler(SchedulerLimits { num_blocks: 7, max_model_len: 24, ..limits() });
    scheduler.add(RequestId(1), RequestSpec { load: true, ..spec(0, 20, 2) });
    let reserving = scheduler.schedule();
    assert_eq!((reserving.loads.clone(), reserving.is_empty()), (vec![RequestId(1)], true));
    assert_eq!((scheduler.loading(), scheduler.pool().free_blocks(), scheduler.pool().cached_hashes()), (1, 1, 0));
    // Others go on meanwhile, as far as there are blocks.
    scheduler.add(RequestId(2), spec(500, 4, 1));
    assert_eq!(counts(&step(&mut scheduler).0), vec![4]);
    scheduler.loaded(RequestId(1));
    assert_eq!(scheduler.pool().cached_hashes(), 5, "four full blocks arrived, one was the other request's");
    let (first, emitted) = step(&mut scheduler);
    assert_eq!((counts(&first), emitted[0].output.cached_tokens), (vec![1], 19));
    assert_eq!(scheduler.stats().external_hits, 19);
    step(&mut scheduler);
    assert_eq!((scheduler.loading(), scheduler.waiting(), scheduler.pool().free_blocks()), (0, 0, 6));
}

#[test]
fn a_loading_request_that_is_given_up_frees_its_blocks() {
    let mut scheduler = scheduler(limits());
    scheduler.add(RequestId(1), RequestSpec { load: true, ..spec(0, 20, 2) });
    scheduler.schedule();
    scheduler.abort(RequestId(1));
    scheduler.loaded(RequestId(1));
    assert!(scheduler.schedule().is_empty());
    assert_eq!((scheduler.loading(), scheduler.waiting(), scheduler.pool().free_blocks()), (0, 0, 64));
}
