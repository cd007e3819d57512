//! A large pool for a minute: 200 targets in groups of eight that serve the same prompts, 4 M holder-blocks, 300,000 block
//! events per second through decoding, index and page encoding on one thread. Says what an event costs and what a
//! holder-block takes, and fails when it cannot keep up or when memory grows once the caches are full.
//!
//! `INGEST_SECONDS` (60) and `INGEST_EVENTS` (300000 per second) change the second part.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a measurement stops at the first surprise and prints a table"
)]

mod traffic;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use event_bridge::ingest::{Ingest, IngestConfig, SourceSpec};
use event_bridge::stream::StreamEvent;
use kv_routing::index::IndexLimits;
use kv_routing::target::Slot;
use kv_routing::wire::Epoch;
use traffic::Engine;

const GROUPS: u16 = 25;
const TARGETS_PER_GROUP: u16 = 8;
/// Blocks an engine's cache holds.
const CAPACITY: usize = 20_000;
/// Pages are encoded this often, as the bridge does under load.
const TICK: Duration = Duration::from_millis(10);
/// Removals begin while the caches fill; after so long the memory they free is in use again.
const WARM_UP: Duration = Duration::from_secs(10);
/// Growth of memory after it that counts as a leak.
const MOST_GROWTH: f64 = 1.02;

/// A batch that every target of a group publishes, and its block events per target.
type Batch = (u16, u64, Bytes, u64);

struct Pool {
    ingest: Ingest,
    events: u64,
    applying: Duration,
    encoding: Duration,
    page_bytes: u64,
}

impl Pool {
    fn new() -> Self {
        let limits = IndexLimits { max_blocks: 8 << 20 };
        let mut ingest = Ingest::new(IngestConfig { limits, secret: 7, ..IngestConfig::default() });
        let now = Instant::now();
        for slot in 0..GROUPS * TARGETS_PER_GROUP {
            ingest.add_target(Slot(slot), SourceSpec::default());
            ingest.handle(Slot(slot), StreamEvent::Connected, now);
        }
        let (applying, encoding) = (Duration::ZERO, Duration::ZERO);
        Self { ingest, events: 0, applying, encoding, page_bytes: 0 }
    }

    fn apply(&mut self, (group, seq, payload, events): Batch) {
        let received = Instant::now();
        for target in 0..TARGETS_PER_GROUP {
            let event = StreamEvent::Live { seq, payload: payload.clone(), received };
            self.ingest.handle(Slot(group * TARGETS_PER_GROUP + target), event, received);
        }
        self.events += events * u64::from(TARGETS_PER_GROUP);
        self.applying += received.elapsed();
    }

    fn encode(&mut self) {
        let begun = Instant::now();
        for page in self.ingest.index_mut().take_dirty() {
            self.page_bytes += std::hint::black_box(self.ingest.index().encode_page(page, Epoch(1))).len() as u64;
        }
        self.encoding += begun.elapsed();
    }
}

/// Batches made by another thread, so that making them is not measured.
fn publish() -> Receiver<Batch> {
    let (sender, receiver) = sync_channel(256);
    std::thread::spawn(move || {
        let mut engines: Vec<Engine> = (0..GROUPS).map(|group| Engine::new(u64::from(group) + 1, CAPACITY)).collect();
        for seq in 0.. {
            for (group, engine) in (0..).zip(&mut engines) {
                let (payload, events) = engine.batch();
                if sender.send((group, seq, payload, events)).is_err() {
                    return;
                }
            }
        }
    });
    receiver
}

fn resident_mib() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: f64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096.0 / f64::from(1 << 20)
}

fn nanos(time: Duration, events: u64) -> f64 {
    time.as_nanos() as f64 / events as f64
}

/// Fills every cache as fast as it goes.
fn fill(pool: &mut Pool, batches: &Receiver<Batch>) {
    let wanted = u64::from(GROUPS * TARGETS_PER_GROUP) * CAPACITY as u64;
    let mut since = Instant::now();
    // A tenth beyond full, so that removals have begun.
    while pool.events < wanted * 11 / 10 {
        pool.apply(batches.recv().unwrap());
        if since.elapsed() >= TICK {
            pool.encode();
            since = Instant::now();
        }
    }
    let busy = pool.applying + pool.encoding;
    println!(
        "filling: {} block events, {:.0} ns each and {:.0} ns for pages: {:.2} M events/s on one core",
        pool.events,
        nanos(pool.applying, pool.events),
        nanos(pool.encoding, pool.events),
        pool.events as f64 / busy.as_secs_f64() / 1e6
    );
}

fn print_sizes(pool: &Pool) {
    let stats = pool.ingest.index().stats();
    let pages: u64 =
        (0..GROUPS * TARGETS_PER_GROUP).filter_map(|slot| Some(pool.ingest.report(Slot(slot))?.pages)).sum();
    let encoded: u64 = (0..1_u32 << pool.ingest.index().page_bits())
        .map(|page| pool.ingest.index().encode_page(page, Epoch(1)).len() as u64)
        .sum();
    let each = |bytes: u64| bytes as f64 / stats.holder_blocks as f64;
    println!(
        "sizes: {} holder-blocks of {} blocks in {} runs, {pages} engine pages",
        stats.holder_blocks, stats.blocks, stats.runs
    );
    println!(
        "  {:.1} bytes per holder-block in the index, {:.2} in encoded pages ({} pages of {} bytes on average)",
        each(stats.bytes),
        each(encoded),
        stats.pages,
        encoded / stats.pages
    );
    println!(
        "  {:.1} bytes per holder-block resident in the whole process",
        resident_mib() * f64::from(1 << 20) / stats.holder_blocks as f64
    );
}

/// A steady rate; returns how far behind the pages of each tick were.
fn steady(pool: &mut Pool, batches: &Receiver<Batch>, rate: f64, time: Duration) -> VecDeque<Duration> {
    let (begun, first) = (Instant::now(), pool.events);
    let (mut lags, mut next_print) = (VecDeque::new(), Duration::from_secs(10));
    let mut ticks = 0_u32;
    while begun.elapsed() < time {
        ticks += 1;
        let due = TICK * ticks;
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        let wanted = first + (due.as_secs_f64() * rate) as u64;
        while pool.events < wanted {
            pool.apply(batches.recv().unwrap());
        }
        pool.encode();
        lags.push_back(begun.elapsed().saturating_sub(due));
        if due >= next_print {
            println!(
                "  after {:>3} s: {:.1} MiB resident, index {:.1} MiB",
                due.as_secs(),
                resident_mib(),
                pool.ingest.index().stats().bytes as f64 / f64::from(1 << 20)
            );
            next_print += Duration::from_secs(10);
        }
    }
    lags
}

fn main() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let time = Duration::from_secs(number("INGEST_SECONDS", 60));
    let rate = number("INGEST_EVENTS", 300_000);
    let (mut pool, batches) = (Pool::new(), publish());
    fill(&mut pool, &batches);
    print_sizes(&pool);

    println!("steady: {rate} block events/s for {} s", time.as_secs());
    steady(&mut pool, &batches, rate as f64, WARM_UP);
    let before = resident_mib();
    let (events, applying, encoding, bytes) = (pool.events, pool.applying, pool.encoding, pool.page_bytes);
    let mut lags: Vec<Duration> = steady(&mut pool, &batches, rate as f64, time).into();
    let events = pool.events - events;
    let (applying, encoding) = (pool.applying - applying, pool.encoding - encoding);
    lags.sort_unstable();
    let quantile = |q: f64| lags[((lags.len() - 1) as f64 * q) as usize].as_secs_f64() * 1e3;
    println!(
        "  {events} events: {:.0} ns each for decoding and index, {:.0} ns for pages ({:.1} bytes); {:.0} % of a core",
        nanos(applying, events),
        nanos(encoding, events),
        (pool.page_bytes - bytes) as f64 / events as f64,
        100.0 * (applying + encoding).as_secs_f64() / time.as_secs_f64()
    );
    println!(
        "  events to encoded pages, after the tick they were due: p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
        quantile(0.5),
        quantile(0.99),
        quantile(1.0)
    );
    let after = resident_mib();
    println!("  resident: {before:.1} MiB before, {after:.1} MiB after");
    let wrong = (0..GROUPS * TARGETS_PER_GROUP)
        .filter_map(|slot| pool.ingest.report(Slot(slot)))
        .filter(|report| report.unknown_removals > 0)
        .count();
    assert_eq!(wrong, 0, "removals of unknown blocks");
    assert!(events as f64 >= rate as f64 * time.as_secs_f64() * 0.99, "too slow for the rate");
    assert!(after <= before * MOST_GROWTH, "memory grows");
}
