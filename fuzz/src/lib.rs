//! Fuzz targets: bytes from outside, through the code that decodes them. See `README.md` beside this crate.
//!
//! A target returns whether it took the bytes for what they claim to be, and panics when the code under it is wrong.

pub mod mutate;
pub mod seeds;
mod targets;

use targets::{core, engine, sockets, tokenizer};

/// One target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, as in `FUZZ_TARGETS`.
    pub name: &'static str,
    /// Feeds it one input. Returns whether the input was accepted.
    pub run: fn(&[u8]) -> bool,
    /// Inputs to begin from, all of which it accepts.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: [Target; 14] = [
    Target { name: "batch", run: engine::batch, seeds: seeds::batches },
    Target { name: "polled", run: engine::polled, seeds: seeds::polled },
    Target { name: "relay", run: engine::relay, seeds: seeds::relay },
    Target { name: "sources", run: engine::sources, seeds: seeds::sources },
    Target { name: "frames", run: engine::frames, seeds: seeds::frames },
    Target { name: "zmtp", run: sockets::zmtp, seeds: seeds::zmtp },
    Target { name: "ingest", run: engine::ingest, seeds: seeds::ingest },
    Target { name: "saved", run: engine::saved, seeds: seeds::saved },
    Target { name: "prometheus", run: sockets::prometheus, seeds: seeds::prometheus },
    Target { name: "wire", run: core::wire, seeds: seeds::wire },
    Target { name: "page", run: core::page, seeds: seeds::page },
    Target { name: "body", run: core::body, seeds: seeds::body },
    Target { name: "policy", run: core::policy, seeds: seeds::policy },
    Target { name: "tokenizer", run: tokenizer::damaged, seeds: seeds::tokenizer },
];

/// Target by name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// Several byte strings in one input: each is led by its length as big-endian `u16`; a last one may be cut short.
pub fn split(mut input: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = input.split_first_chunk::<2>() {
        let (part, rest) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
        parts.push(part);
        input = rest;
    }
    parts
}

/// Inverse of [`split`], for seeds; parts of 64 KiB and more are left out.
pub fn join(parts: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut input = Vec::new();
    for part in parts {
        let part = part.as_ref();
        let Ok(length) = u16::try_from(part.len()) else { continue };
        input.extend_from_slice(&length.to_be_bytes());
        input.extend_from_slice(part);
    }
    input
}
