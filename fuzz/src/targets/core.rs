//! What the filter reads: bodies of clients, and shared data.

use std::fmt::Debug;

use event_bridge::policy::{Surroundings, compile};
use kv_routing::block::SequenceHash;
use kv_routing::index::{MAX_PAGE_BITS, PageSource, lookup};
use kv_routing::openai::{Endpoint, parse};
use kv_routing::policy::document::{Document, Facts};
use kv_routing::wire::{
    DecisionBatch, Epoch, LoadRow, Manifest, ManifestHeader, Push, PushReply, TargetTable, UnixMillis, WireError,
    set_heartbeat,
};

/// A value or message of the bridge or of another thread.
pub(crate) fn wire(input: &[u8]) -> bool {
    let Some((kind, bytes)) = input.split_first() else { return false };
    match kind % 7 {
        0 => {
            Push::decode(bytes).inspect(|push| again(push, push.encode(), |bytes| Push::decode(bytes).is_ok())).is_ok()
        }
        1 => taken(PushReply::decode(bytes), PushReply::encode, PushReply::decode),
        2 => {
            let mut copy = bytes.to_vec();
            set_heartbeat(&mut copy, UnixMillis(1));
            let header = ManifestHeader::decode(bytes);
            let manifest = Manifest::decode(bytes);
            if let (Ok(header), Ok(manifest)) = (&header, &manifest) {
                assert_eq!(*header, manifest.header);
            }
            assert!(header.is_ok() || manifest.is_err(), "a manifest has a header");
            taken(manifest, Manifest::encode, Manifest::decode)
        }
        3 => taken(TargetTable::decode(bytes), TargetTable::encode, TargetTable::decode),
        4 => taken(LoadRow::decode(bytes), LoadRow::encode, LoadRow::decode),
        5 => taken(DecisionBatch::decode(bytes), DecisionBatch::encode, DecisionBatch::decode),
        _ => {
            let document = Document::decode(bytes);
            if let Ok(document) = &document {
                choose(document);
            }
            taken(document, Document::encode, Document::decode)
        }
    }
}

fn again<T: Debug>(value: &T, encoded: Result<Vec<u8>, WireError>, decodes: impl Fn(&[u8]) -> bool) {
    let encoded = encoded.unwrap_or_else(|error| panic!("what was decoded encodes: {error}: {value:?}"));
    assert!(decodes(&encoded), "what was encoded decodes: {value:?}");
}

/// Whether `decoded` is a value; one that is encodes to bytes that decode to the same.
fn taken<T: Debug>(
    decoded: Result<T, WireError>,
    encode: impl Fn(&T) -> Result<Vec<u8>, WireError>,
    decode: impl Fn(&[u8]) -> Result<T, WireError>,
) -> bool {
    let Ok(value) = decoded else { return false };
    // Compared as text: numbers that are not numbers differ from themselves.
    let text = format!("{value:?}");
    again(&value, encode(&value), |bytes| decode(bytes).is_ok_and(|value| format!("{value:?}") == text));
    true
}

fn choose(document: &Document) {
    for prompt_tokens in [None, Some(100)] {
        let header = |name: &str| (name != "absent").then(|| b"value".to_vec());
        let facts = Facts {
            model: "m",
            adapter: None,
            path: "/v1/completions",
            stream: true,
            priority: 0,
            prompt_tokens,
            header: &header,
        };
        std::hint::black_box(document.live.select(&facts));
    }
}

/// One page: three bytes for its page bits, its number and the length of a chain whose hashes follow as `u64`, then the page.
pub(crate) fn page(input: &[u8]) -> bool {
    struct One<'a>(u32, &'a [u8]);
    impl PageSource for One<'_> {
        fn page(&mut self, page: u32) -> Option<Vec<u8>> {
            (page == self.0).then(|| self.1.to_vec())
        }
    }
    let Some(([bits, number, blocks], rest)) = input.split_first_chunk::<3>() else { return false };
    let Some((hashes, bytes)) = rest.split_at_checked(usize::from(*blocks) * 8) else { return false };
    let (hashes, _) = hashes.as_chunks::<8>();
    let chain: Vec<SequenceHash> = hashes.iter().map(|hash| SequenceHash(u64::from_le_bytes(*hash))).collect();
    let bits = bits % (MAX_PAGE_BITS + 2);
    let (found, stats) = lookup(&chain, bits, Epoch(7), &mut One(u32::from(*number), bytes));
    for (_, overlap) in &found.0 {
        let covered = u64::from(overlap.device) + u64::from(overlap.host) + u64::from(overlap.disk);
        assert!(covered <= chain.len() as u64, "{overlap:?} of a chain of {}", chain.len());
    }
    stats.runs > 0
}

/// A client's body.
pub(crate) fn body(input: &[u8]) -> bool {
    let Some((endpoint, body)) = input.split_first() else { return false };
    Endpoint::ALL
        .get(usize::from(*endpoint) % Endpoint::ALL.len())
        .is_some_and(|endpoint| parse(*endpoint, body).is_ok())
}

/// A policy document as people write it; what compiles is used.
pub(crate) fn policy(text: &[u8]) -> bool {
    match compile(text, &Surroundings::anything()) {
        Ok(compiled) => {
            let document = Document { version: 1, live: compiled.rules, shadow: None };
            choose(&document);
            taken(Ok(document), Document::encode, Document::decode)
        }
        Err(refused) => {
            assert!(!refused.0.is_empty(), "a refusal says why");
            false
        }
    }
}
