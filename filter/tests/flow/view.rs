use filter::host::Host;
use kv_routing::wire::{Epoch, SourceState, keys};

use crate::stage::Stage;

fn write(stage: &Stage, key: &str, value: &[u8]) {
    stage.threads[0].host.set_shared(key, value, None).unwrap();
    stage.envoy.pass(10);
}

#[test]
fn a_change_is_seen_within_milliseconds_and_read_once() {
    let mut stage = Stage::new();
    stage.prompt(0..64);
    let reloads = stage.envoy.count("view_reloads");
    stage.targets.truncate(1);
    stage.push();
    stage.envoy.pass(5);
    for _ in 0..3 {
        let exchange = stage.prompt(0..64);
        assert_eq!(stage.endpoints(0, &exchange), ["10.0.0.1:8000"]);
    }
    // One reload by the thread that took the push, one by the one that routes.
    assert_eq!(stage.envoy.count("view_reloads"), reloads + 2);
}

#[test]
fn heartbeats_do_not_make_a_vm_read_everything_again() {
    let mut stage = Stage::new();
    stage.prompt(0..64);
    let reloads = stage.envoy.count("view_reloads");
    for _ in 0..10 {
        stage.envoy.pass(500);
        stage.heartbeat();
        stage.prompt(0..64);
    }
    assert_eq!(stage.envoy.count("view_reloads"), reloads);
    assert_eq!(stage.envoy.count("routed_stale"), 0);
}

#[test]
fn a_silent_bridge_makes_credit_fade_and_its_return_restores_it() {
    let mut stage = Stage::new();
    stage.holds(2, 0..160);
    stage.envoy.pass(500);
    stage.heartbeat();
    let state = |stage: &mut Stage| {
        let exchange = stage.prompt(0..160);
        let decision = stage.decision(0, &exchange);
        stage.finish(0, &exchange);
        (decision["state"].as_str().unwrap().to_owned(), decision["cost"]["credit"].as_f64().unwrap())
    };
    assert_eq!(state(&mut stage), (SourceState::Exact.as_str().to_owned(), 10.0));
    stage.envoy.pass(5000);
    let (name, credit) = state(&mut stage);
    assert_eq!(name, "stale");
    assert!((4.9..5.1).contains(&credit), "{credit}");
    assert_eq!(stage.envoy.count("routed_stale"), 1);
    stage.heartbeat();
    stage.envoy.pass(10);
    assert_eq!(state(&mut stage), (SourceState::Exact.as_str().to_owned(), 10.0));
}

#[test]
fn a_bridge_with_another_clock_is_alive_as_long_as_its_heart_beats() {
    let mut stage = Stage::new();
    for beat in 0..4_u64 {
        let mut manifest = stage.manifest();
        kv_routing::wire::set_heartbeat(&mut manifest, kv_routing::wire::UnixMillis(7 + beat));
        write(&stage, keys::MANIFEST, &manifest);
        stage.prompt(0..64);
        stage.envoy.pass(1000);
    }
    let stale = stage.envoy.count("routed_stale");
    stage.prompt(0..64);
    assert_eq!(stage.envoy.count("routed_stale"), stale);
    stage.envoy.pass(4000);
    stage.prompt(0..64);
    assert_eq!(stage.envoy.count("routed_stale"), stale + 1);
}

#[test]
fn a_manifest_of_another_release_is_refused_once_and_requests_pass() {
    let mut stage = Stage::new();
    stage.prompt(0..64);
    let good = stage.manifest();
    let mut other = good.clone();
    other[0] = 9;
    let mut torn = good.clone();
    torn.truncate(40);
    for bad in [&other[..], &torn, b"\x01", b"\x00"] {
        let errors = stage.envoy.count("view_errors");
        write(&stage, keys::MANIFEST, bad);
        for _ in 0..3 {
            let exchange = stage.prompt(0..64);
            let expected = if bad == torn { "pool" } else { "bad_manifest" };
            // A torn one of the same generation is not even decoded.
            if expected == "bad_manifest" {
                assert_eq!(stage.unrouted(0, &exchange), expected, "{bad:?}");
            }
            stage.envoy.pass(10);
        }
        assert!(stage.envoy.count("view_errors") <= errors + 1, "said once");
        write(&stage, keys::MANIFEST, &good);
        let exchange = stage.prompt(0..64);
        assert_eq!(stage.endpoints(0, &exchange).len(), 3, "recovers");
    }
    let lines = stage.envoy.logs.borrow();
    assert!(lines.iter().any(|(_, line)| line.contains("run filter and bridge of the same release")), "{lines:?}");
}

#[test]
fn a_torn_manifest_of_a_new_generation_is_refused() {
    let mut stage = Stage::new();
    stage.generation += 1;
    let mut torn = stage.manifest();
    torn.truncate(60);
    write(&stage, keys::MANIFEST, &torn);
    let exchange = stage.prompt(0..64);
    assert_eq!(stage.unrouted(0, &exchange), "bad_manifest");
    assert_eq!(stage.envoy.count("unrouted.bad_manifest"), 1);
}

#[test]
fn a_target_table_that_cannot_be_read_leaves_the_pool_to_envoy() {
    let mut stage = Stage::new();
    stage.generation += 1;
    write(&stage, &keys::targets(stage.pools[0].id), b"\x01junk");
    write(&stage, keys::MANIFEST, &stage.manifest());
    let exchange = stage.prompt(0..64);
    assert_eq!(stage.unrouted(0, &exchange), "no_target");
    assert!(stage.envoy.count("view_errors") > 0);
}

#[test]
fn pages_of_another_epoch_or_malformed_ones_are_ignored_and_counted() {
    let mut stage = Stage::new();
    stage.holds(2, 0..160);
    let bits = stage.index.page_bits();
    let number = kv_routing::index::page_of(crate::stage::chain_of(0..16)[0], bits);
    let key = keys::page(stage.pools[0].id, bits, number);
    let foreign = stage.index.encode_page(number, Epoch(1));
    for page in [&foreign[..], b"junk", b"\x01"] {
        let rejected = stage.envoy.count("rejected_pages");
        write(&stage, &key, page);
        let exchange = stage.prompt(0..160);
        assert_eq!(stage.decision(0, &exchange)["overlap"]["device"], 0);
        assert_eq!(stage.envoy.count("rejected_pages"), rejected + 1);
    }
}

#[test]
fn a_wiped_envoy_recovers_with_the_next_snapshot() {
    let mut stage = Stage::new();
    stage.holds(2, 0..160);
    stage.prompt(0..160);
    stage.envoy.data.borrow_mut().clear();
    stage.envoy.pass(10);
    let exchange = stage.prompt(0..160);
    assert_eq!(stage.unrouted(0, &exchange), "no_manifest");
    assert!(stage.heartbeat().need_snapshot);
    stage.push();
    stage.envoy.pass(10);
    let exchange = stage.prompt(0..160);
    assert_eq!(stage.decision(0, &exchange)["overlap"]["device"], 10);
}
