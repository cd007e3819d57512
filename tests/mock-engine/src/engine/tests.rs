use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::Instant;

use super::*;
use crate::cache::{BlockHasher, CacheScope};
use crate::config::Speed;
use crate::sched::{RequestSpec, SchedulerLimits};

fn rank(max_num_seqs: usize, max_num_batched_tokens: usize) -> Rank {
    let limits = SchedulerLimits {
        block_size: 16,
        num_blocks: 4_096,
        max_num_seqs,
        max_num_batched_tokens,
        max_model_len: 60_000,
    };
    let speed = Speed { prefill_tokens_per_s: 10_000.0, decode_ms_per_token: 20.0, speedup: 1.0 };
    Rank::start(
        RankConfig { limits, hasher: BlockHasher::new("0"), speed, hold_timeout: Duration::from_secs(30) },
        None,
    )
}

fn submission(from: u32, prompt: u32, max_tokens: u32) -> Submission {
    let spec = RequestSpec {
        prompt: (from..from + prompt).collect(),
        scope: CacheScope::default(),
        max_tokens,
        stop_after: None,
        answer: Box::new(|index| index as u32),
        hold: false,
        load: false,
    };
    Submission { spec, n: 1, reserved: None }
}

/// Milliseconds from now until each token.
async fn arrivals(mut ticket: Ticket) -> Vec<u128> {
    let start = Instant::now();
    let mut times = Vec::new();
    while ticket.next().await.is_some() {
        times.push(start.elapsed().as_millis());
    }
    times
}

#[tokio::test(start_paused = true)]
async fn first_and_later_tokens_take_the_configured_times() {
    let rank = rank(8, 8_192);
    // 2,000 tokens at 10,000 a second, then 20 ms each.
    assert_eq!(arrivals(rank.submit(submission(0, 2_000, 4))).await, vec![200, 220, 240, 260]);
    // Cached but for the last 16 tokens (125 full blocks, one less): 1.6 ms.
    assert_eq!(arrivals(rank.submit(submission(0, 2_000, 1))).await, vec![2]);
}

#[tokio::test(start_paused = true)]
async fn prefill_of_a_newcomer_slows_running_decodes() {
    let rank = rank(8, 1_000);
    let first = tokio::spawn(arrivals(rank.submit(submission(0, 100, 6))));
    tokio::time::sleep(Duration::from_millis(15)).await;
    // At 30 ms (10 + 20) the newcomer's 1,998 tokens join in chunks of 999 beside one decode token each.
    let second = arrivals(rank.submit(submission(50_000, 1_998, 1))).await;
    let first = first.await.unwrap();
    // Token times: 10, 30, then two steps of 20 + 99.9, then 20 each.
    assert_eq!(first, vec![10, 30, 150, 270, 290, 310]);
    assert_eq!(second, vec![255]);
}

#[tokio::test(start_paused = true)]
async fn a_full_batch_makes_others_wait_their_turn() {
    let rank = rank(1, 8_192);
    let start = Instant::now();
    let tickets: Vec<Ticket> = (0..3).map(|n| rank.submit(submission(n * 10_000, 1_000, 2))).collect();
    let mut firsts = Vec::new();
    for ticket in tickets {
        arrivals(ticket).await;
        firsts.push(start.elapsed().as_millis());
    }
    // Each takes 100 ms of prefill and 20 ms of decode, one after the other.
    assert_eq!(firsts, vec![120, 240, 360]);
    let metrics = rank.metrics();
    assert_eq!(metrics.time_to_first_token.count(), 3);
    assert!((metrics.time_to_first_token.sum() - 0.660).abs() < 0.01, "100 + 220 + 340 ms");
    assert_eq!((metrics.finished_length, metrics.running, metrics.waiting), (3, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn short_steps_do_not_add_up_timer_granularity() {
    let limits = SchedulerLimits {
        block_size: 16,
        num_blocks: 4_096,
        max_num_seqs: 8,
        max_num_batched_tokens: 8_192,
        max_model_len: 60_000,
    };
    let speed = Speed { prefill_tokens_per_s: 10_000.0, decode_ms_per_token: 20.0, speedup: 100.0 };
    let rank = Rank::start(
        RankConfig { limits, hasher: BlockHasher::new("0"), speed, hold_timeout: Duration::from_secs(30) },
        None,
    );
    // 1,001 tokens: 0.1 ms and then 1,000 steps of 0.2 ms, far below the timer's millisecond.
    let times = arrivals(rank.submit(submission(0, 10, 1_001))).await;
    assert_eq!(times.len(), 1_001);
    assert!((199..=202).contains(times.last().unwrap()), "took {} ms", times.last().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_ticket_ends_its_request() {
    let rank = rank(1, 8_192);
    let abandoned = rank.submit(submission(0, 1_000, 50_000));
    let waiting = rank.submit(submission(10_000, 1_000, 1));
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(rank.load(), (1, 1));
    drop(abandoned);
    assert_eq!(arrivals(waiting).await.len(), 1);
    let metrics = rank.metrics();
    assert_eq!((metrics.finished_abort, metrics.running, metrics.kv_usage), (1, 0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_hung_rank_answers_nothing_until_released() {
    let rank = rank(8, 8_192);
    rank.set_hung(true);
    let mut ticket = rank.submit(submission(0, 1_000, 1));
    assert!(tokio::time::timeout(Duration::from_secs(60), ticket.next()).await.is_err());
    rank.set_hung(false);
    assert_eq!(arrivals(ticket).await, vec![100]);
}
