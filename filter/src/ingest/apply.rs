//! One push against what is in place.

use kv_routing::wire::{ManifestHeader, Push, Put, UnixMillis, keys};

use crate::counters::Counter;
use crate::host::Host;
use crate::vm::{BRIDGE_SILENT_MS, Vm};

/// What became of a push.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Written.
    Applied,
    /// Not written: a later bridge has taken over.
    Superseded,
    /// Not written: everything is needed first.
    NeedSnapshot,
    /// Not written, and not to be repeated.
    Refused(String),
}

/// Judges a push and writes its values.
pub(super) fn apply(vm: &mut Vm, host: &impl Host, body: &[u8], now: UnixMillis) -> Outcome {
    let push = match Push::decode(body) {
        Ok(push) => push,
        Err(error) => {
            vm.counters.count(host, Counter::IngestMalformed);
            return Outcome::Refused(format!("{error}\n"));
        }
    };
    if let Some(foreign) = push.puts.iter().find(|put| !keys::is_bridge_key(put.key)) {
        vm.counters.count(host, Counter::IngestForeignKey);
        return Outcome::Refused(format!("key {:?} is not the bridge's to write\n", foreign.key));
    }
    vm.view.expire();
    vm.refresh(host, now);
    let in_place = vm.view.header();
    let alive = vm.view.silence(BRIDGE_SILENT_MS, now).is_none();
    if alive && in_place.is_some_and(|header| header.epoch.0 > push.epoch.0) {
        vm.counters.count(host, Counter::IngestSuperseded);
        return Outcome::Superseded;
    }
    if !push.snapshot && in_place.is_none_or(|header| header.epoch != push.epoch) {
        vm.counters.count(host, Counter::IngestNeedSnapshot);
        return Outcome::NeedSnapshot;
    }
    let mut written = 0;
    for put in push.puts.iter().filter(|put| !is_late(put, in_place)) {
        if host.set_shared(put.key, put.value, None).is_ok() {
            written += 1;
        }
    }
    vm.counters.count(host, Counter::IngestPushes);
    vm.counters.add(host, Counter::IngestPuts, written);
    vm.view.expire();
    vm.refresh(host, now);
    Outcome::Applied
}

/// A manifest older than the one in place can only be a late repetition.
fn is_late(put: &Put<'_>, in_place: Option<ManifestHeader>) -> bool {
    let Some(in_place) = in_place.filter(|_| put.key == keys::MANIFEST) else {
        return false;
    };
    ManifestHeader::decode(put.value)
        .is_ok_and(|header| header.epoch == in_place.epoch && header.generation < in_place.generation)
}
