use filter::config::IngestConfig;
use kv_routing::wire::{Epoch, Generation, Push, PushReply, Put, keys};

use crate::stage::{START, Stage};

fn push(epoch: u64, snapshot: bool, puts: &[(&str, &[u8])]) -> Vec<u8> {
    let puts = puts.iter().map(|(key, value)| Put { key, value }).collect();
    Push { epoch: Epoch(epoch), snapshot, puts }.encode().unwrap()
}

fn replied(stage: &mut Stage, body: &[u8]) -> PushReply {
    let (status, body) = stage.ingest("POST", "/kv/v1/push", &[], body);
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    PushReply::decode(&body).unwrap()
}

#[test]
fn a_snapshot_is_taken_and_told_back() {
    let mut stage = Stage::empty();
    let reply = stage.push();
    assert_eq!(reply.in_place, Some((Epoch(START), Generation(2))));
    assert!(!reply.need_snapshot);
    assert_eq!(stage.envoy.count("ingest.pushes"), 1);
    let pages = 1 << stage.index.page_bits();
    assert_eq!(stage.envoy.count("ingest.puts"), pages + 2);
}

#[test]
fn a_delta_needs_a_manifest_of_its_epoch() {
    let mut stage = Stage::empty();
    let reply = replied(&mut stage, &push(START, false, &[("kv/p/0/0/0", b"page")]));
    assert_eq!((reply.in_place, reply.need_snapshot), (None, true));
    assert!(stage.envoy.data.borrow().is_empty());
    stage.push();
    assert!(!replied(&mut stage, &push(START, false, &[("kv/p/0/0/0", b"page")])).need_snapshot);
    assert_eq!(stage.envoy.data.borrow()["kv/p/0/0/0"].0, b"page");
    let reply = replied(&mut stage, &push(START + 1, false, &[("kv/p/0/0/0", b"other")]));
    assert!(reply.need_snapshot);
    assert_eq!(stage.envoy.data.borrow()["kv/p/0/0/0"].0, b"page");
    assert_eq!(stage.envoy.count("ingest.need_snapshot"), 2);
}

#[test]
fn of_two_bridges_the_younger_wins_until_it_dies() {
    let mut stage = Stage::new();
    stage.epoch += 10;
    stage.push();
    let old = push(START, true, &[(keys::POLICY, b"old")]);
    let reply = replied(&mut stage, &old);
    assert_eq!((reply.in_place.unwrap().0, reply.need_snapshot), (Epoch(START + 10), false));
    assert!(!stage.envoy.data.borrow().contains_key(keys::POLICY));
    assert_eq!(stage.envoy.count("ingest.superseded"), 1);
    stage.envoy.pass(3100);
    replied(&mut stage, &old);
    assert_eq!(stage.envoy.data.borrow()[keys::POLICY].0, b"old");
}

#[test]
fn a_late_manifest_is_left_out() {
    let mut stage = Stage::new();
    let late = stage.manifest();
    stage.push();
    let generation = stage.generation;
    let reply = replied(&mut stage, &push(START, false, &[(keys::MANIFEST, &late), (keys::POLICY, b"p")]));
    assert_eq!(reply.in_place.unwrap().1, Generation(generation));
    assert_eq!(stage.envoy.data.borrow()[keys::POLICY].0, b"p");
}

#[test]
fn foreign_keys_and_junk_are_refused_and_nothing_is_written() {
    let mut stage = Stage::new();
    let before = stage.envoy.data.borrow().clone();
    let foreign = push(START, true, &[(keys::POLICY, b"p"), ("kv/load/0", b"x")]);
    let (status, body) = stage.ingest("POST", "/kv/v1/push", &[], &foreign);
    assert_eq!((status, String::from_utf8_lossy(&body).contains("kv/load/0")), (400, true));
    let mut other_version = push(START, true, &[]);
    other_version[0] = 9;
    for junk in [&other_version[..], b"junk", &[1], &foreign[..20]] {
        assert_eq!(stage.ingest("POST", "/kv/v1/push", &[], junk).0, 400);
    }
    assert_eq!(*stage.envoy.data.borrow(), before);
    assert_eq!((stage.envoy.count("ingest.foreign_key"), stage.envoy.count("ingest.malformed")), (1, 4));
}

#[test]
fn other_requests_are_answered_or_passed() {
    let mut stage = Stage::empty();
    assert_eq!(stage.ingest("GET", "/kv/v1/push", &[], b"").0, 200);
    assert_eq!(stage.ingest("GET", "/kv/v1/push?x=1", &[], b"").0, 200);
    assert_eq!(stage.ingest("POST", "/kv/v1/push", &[], b"").0, 400);
    assert_eq!(stage.ingest("DELETE", "/kv/v1/push", &[], b"").0, 405);
    assert_eq!(stage.ingest("POST", "/kv/v1/pushed", &[], b"x").0, 0, "passed on");
    assert_eq!(stage.ingest("POST", "/", &[], b"x").0, 0, "passed on");
}

#[test]
fn a_push_over_the_bound_is_refused() {
    let mut stage = Stage::empty();
    let long = push(START, true, &[(keys::POLICY, &vec![0; 1 << 20])]);
    assert_eq!(stage.ingest("POST", "/kv/v1/push", &[], &long).0, 413);
    assert_eq!(stage.envoy.count("ingest.too_large"), 1);
}

#[test]
fn a_secret_is_asked_for_when_there_is_one() {
    let mut stage = Stage::empty();
    let config = IngestConfig { secret: Some("open sesame".into()), max_push_bytes: 1 << 20 };
    let body = push(START, true, &[]);
    let mut status =
        |header: &[(&str, &str)]| stage.ingest_with(config.clone(), "POST", "/kv/v1/push", header, &body).0;
    assert_eq!(status(&[("authorization", "Bearer open sesame")]), 200);
    for wrong in ["Bearer open sesam", "Bearer open sesame!", "Bearer ", "open sesame", "Bearer open sesamE"] {
        assert_eq!(status(&[("authorization", wrong)]), 401, "{wrong}");
    }
    assert_eq!(status(&[]), 401);
    assert_eq!(stage.envoy.count("ingest.unauthorized"), 6);
}
