//! The scheduler, fed with what a real vLLM 0.32 was asked and what it generated, publishes the same bytes.

use mock_engine::cache::{BlockHasher, CacheScope};
use mock_engine::events::encode_batch;
use mock_engine::sched::{RequestId, RequestSpec, Scheduler, SchedulerLimits};

use crate::recorded_data::{Recorded, lives};

/// The recorded engines ran with `PYTHONHASHSEED=0`.
pub(crate) const HASH_SEED: &str = "0";

fn scheduler(num_blocks: u32) -> Scheduler {
    let limits = SchedulerLimits {
        block_size: 32,
        num_blocks,
        max_num_seqs: 16,
        max_num_batched_tokens: 2048,
        max_model_len: 16384,
    };
    Scheduler::new(limits, BlockHasher::new(HASH_SEED))
}

fn spec(recorded: &Recorded, outputs: Vec<u32>) -> RequestSpec {
    RequestSpec {
        prompt: recorded.prompt.clone(),
        scope: CacheScope { adapter: None, salt: recorded.request["cache_salt"].as_str().map(str::to_owned) },
        max_tokens: outputs.len() as u32,
        stop_after: None,
        answer: Box::new(move |index| outputs[index]),
        hold: false,
        load: false,
    }
}

/// Runs steps until nothing is left, and compares each batch with the next recorded one.
fn run(scheduler: &mut Scheduler, recorded: &Recorded, next_frame: &mut usize, steps: usize) -> usize {
    let mut cached = 0;
    for _ in 0..steps {
        let step = scheduler.schedule();
        if step.is_empty() {
            break;
        }
        for emission in scheduler.complete(&step) {
            cached = emission.output.cached_tokens;
        }
        let events = scheduler.pool_mut().take_events();
        if events.is_empty() {
            continue;
        }
        let frame = &recorded.frames[*next_frame];
        assert_eq!(events, frame.events, "{} batch {next_frame}", recorded.scenario);
        assert_eq!(encode_batch(frame.timestamp, &events, 0), frame.payload, "{} bytes", recorded.scenario);
        *next_frame += 1;
    }
    cached
}

fn replay(scheduler: &mut Scheduler, recorded: &Recorded, id: u64) {
    let mut next_frame = 0;
    let mut cached;
    scheduler.add(RequestId(id), spec(recorded, recorded.outputs.clone()));
    if recorded.request["n"] == 2 {
        // The second sample reached the real engine one step after the first one. Only its first 26 tokens are known
        // (they fill its third block); the rest does not complete another block.
        run(scheduler, recorded, &mut next_frame, 1);
        let mut outputs = last_block_of_second_sample(recorded);
        outputs.resize(recorded.outputs.len(), 0);
        scheduler.add(RequestId(id + 1), spec(recorded, outputs));
    }
    cached = run(scheduler, recorded, &mut next_frame, usize::MAX);
    assert_eq!(next_frame, recorded.frames.len(), "{}: fewer batches than recorded", recorded.scenario);
    if recorded.request["n"] == 2 {
        cached = 64;
    }
    assert_eq!(recorded.usage["prompt_tokens_details"]["cached_tokens"], cached, "{}", recorded.scenario);
}

fn last_block_of_second_sample(recorded: &Recorded) -> Vec<u32> {
    let mock_engine::events::KvEvent::Stored(stored) = &recorded.frames[2].events[0] else { panic!("a store") };
    stored.token_ids[recorded.prompt.len() % 32..].to_vec()
}

#[test]
fn events_encode_to_the_recorded_bytes() {
    let mut frames = 0;
    for recorded in lives().iter().flatten() {
        for frame in &recorded.frames {
            assert_eq!(encode_batch(frame.timestamp, &frame.events, 0), frame.payload, "{}", recorded.scenario);
            frames += 1;
        }
    }
    assert_eq!(frames, 49);
}

#[test]
fn ordinary_traffic_publishes_the_recorded_batches() {
    let mut scheduler = scheduler(2048);
    let [ordinary, _] = lives();
    assert_eq!(ordinary.len(), 22);
    for (index, recorded) in ordinary.iter().enumerate() {
        replay(&mut scheduler, recorded, 10 * index as u64);
    }
}

#[test]
fn eviction_and_reset_publish_the_recorded_batches() {
    let mut scheduler = scheduler(128);
    let [_, evicting] = lives();
    assert_eq!(evicting.len(), 16);
    for (index, recorded) in evicting.iter().enumerate() {
        if recorded.scenario == "after reset" {
            assert!(scheduler.pool_mut().reset());
        }
        replay(&mut scheduler, recorded, index as u64);
    }
}
