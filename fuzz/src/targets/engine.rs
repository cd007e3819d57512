//! What engines say about their caches.

use std::time::Instant;

use bytes::Bytes;
use event_bridge::engine::{
    Event, Tokens, decode_batch, decode_load, decode_polled, decode_relay, describe, live, polled_head, replay,
    sglang_sources, split_polled, vllm_sources,
};
use event_bridge::ingest::{Ingest, IngestConfig, Saved, SourceSpec};
use event_bridge::stream::StreamEvent;
use kv_routing::block::SequenceHash;
use kv_routing::index::{IndexLimits, PageSource, lookup};
use kv_routing::target::Slot;
use kv_routing::wire::Epoch;
use xxhash_rust::xxh3::xxh3_64;

/// A payload of an event socket or of a load socket.
pub(crate) fn batch(payload: &[u8]) -> bool {
    let (mut seen, mut good) = (0_u32, 0_u32);
    let info = decode_batch(payload, |event| {
        seen += 1;
        if let Ok(event) = event {
            good += 1;
            check(&event, payload.len());
        }
    });
    if let Ok(info) = info {
        assert_eq!(info.events, seen, "events are handed out one for one");
    }
    (info.is_ok() && good > 0) || decode_load(payload).is_ok()
}

/// An event cannot hold more than the bytes it came from.
fn check(event: &Event<'_>, bytes: usize) {
    let _: serde_json::Value = describe(event);
    match event {
        Event::Stored(stored) => {
            let tokens = match &stored.tokens {
                Tokens::Unindexable { .. } => 0,
                tokens => tokens.positions(),
            };
            let lookahead: usize = stored.lookahead.iter().map(Vec::len).sum();
            let keys: usize = stored.extra_keys.iter().map(Vec::len).sum();
            assert!(stored.hashes.len() + tokens + lookahead + keys <= bytes);
        }
        Event::Removed(removed) => assert!(removed.hashes.len() <= bytes),
        Event::Moved(_) | Event::Cleared => {}
    }
}

/// An answer of TensorRT-LLM's `/kv_cache_events`.
pub(crate) fn polled(body: &[u8]) -> bool {
    let Ok(events) = decode_polled(body) else {
        assert!(split_polled(body).is_err());
        return false;
    };
    let texts = split_polled(body).expect("it was split before");
    assert_eq!(events.len(), texts.len());
    for (event, text) in events.iter().zip(texts) {
        if let Ok(event) = event {
            let (id, rank) = polled_head(text).expect("what decodes has a head");
            assert_eq!((event.id, event.rank), (id, rank));
            event.changes.iter().for_each(|change| check(change, text.len()));
        }
    }
    events.iter().any(Result::is_ok)
}

/// A message of Dynamo's event plane.
pub(crate) fn relay(input: &[u8]) -> bool {
    decode_relay(&crate::split(input)).is_ok()
}

/// Where an engine says that it publishes.
pub(crate) fn sources(body: &[u8]) -> bool {
    let found = [vllm_sources(body, "10.0.0.7"), sglang_sources(body, "fd00::7")];
    let mut accepted = false;
    for sources in found.into_iter().flatten() {
        assert!(!sources.is_empty(), "no sources are an error");
        for source in sources {
            assert!(source.endpoint.starts_with("tcp://") || source.endpoint.starts_with("ipc://"));
        }
        accepted = true;
    }
    accepted
}

/// A message of an event or replay socket.
pub(crate) fn frames(input: &[u8]) -> bool {
    let frames = crate::split(input);
    live(&frames).is_ok() | replay(&frames).is_ok()
}

/// Batches of two targets, by the lowest bit of their first byte, all the way to a lookup over the pages.
pub(crate) fn ingest(input: &[u8]) -> bool {
    let mut ingest = Ingest::new(IngestConfig {
        limits: IndexLimits { max_blocks: 512 },
        max_orphans: 64,
        max_pages: 4096,
        ..IngestConfig::default()
    });
    let now = Instant::now();
    for slot in [Slot(0), Slot(1)] {
        ingest.add_target(slot, SourceSpec::default());
        ingest.handle(slot, StreamEvent::Connected, now);
    }
    for (seq, part) in (0..).zip(crate::split(input)) {
        let Some((slot, payload)) = part.split_first() else { continue };
        let payload = Bytes::copy_from_slice(payload);
        ingest.handle(Slot(u16::from(slot & 1)), StreamEvent::Live { seq, payload, received: now }, now);
    }
    let stats = ingest.index().stats();
    assert!(stats.blocks <= 512, "{stats:?}");
    let mut chains: Vec<(u32, SequenceHash)> = Vec::new();
    ingest.index().for_each_holder(|_, _, block, depth| chains.extend(depth.map(|depth| (depth, block))));
    for (_, root) in chains.iter().filter(|(depth, _)| *depth == 0) {
        let epoch = Epoch(7);
        let bits = ingest.index().page_bits();
        let (found, cost) = lookup(&[*root], bits, epoch, &mut Pages(&ingest, epoch));
        assert_eq!(cost.rejected_pages, 0, "a page we wrote");
        assert!(!found.0.is_empty(), "a root that is held is found");
    }
    stats.blocks > 0
}

/// A warm-start file behind its checksum.
pub(crate) fn saved(body: &[u8]) -> bool {
    let bytes = [&b"KVWARM\x01\0"[..], &xxh3_64(body).to_le_bytes(), body].concat();
    let Ok(saved) = Saved::decode(&bytes) else { return false };
    assert_eq!(Saved::decode(&saved.encode()).as_ref(), Ok(&saved), "what was decoded encodes to the same");
    let mut ingest = Ingest::new(IngestConfig { limits: IndexLimits { max_blocks: 512 }, ..IngestConfig::default() });
    ingest.add_target(Slot(0), SourceSpec { replay: true, ..SourceSpec::default() });
    let restored = ingest.restore(Slot(0), &saved);
    assert!(restored || ingest.index().stats().holder_blocks == 0, "all or nothing");
    if restored {
        let again = ingest.save(Slot(0), saved.name.clone());
        assert!(again.is_some(), "what was taken over can be saved");
    }
    restored
}

struct Pages<'a>(&'a Ingest, Epoch);

impl PageSource for Pages<'_> {
    fn page(&mut self, page: u32) -> Option<Vec<u8>> {
        Some(self.0.index().encode_page(page, self.1))
    }
}
