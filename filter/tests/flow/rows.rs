use filter::host::Host;
use filter::view::ROW_EXPIRY_MS;
use kv_routing::wire::{LoadRow, keys};

use crate::stage::{Stage, Thread, completion};

#[test]
fn vms_claim_rows_of_their_own_at_their_first_routed_request() {
    let mut stage = Stage::new();
    for thread in &mut stage.threads {
        thread.tick();
    }
    assert_eq!(stage.threads.iter().filter_map(|thread| thread.vm.rows.own()).count(), 0);
    stage.prompt(0..64);
    stage.request(1, &completion("base", 0..64));
    let rows: Vec<_> = stage.threads.iter().map(|thread| thread.vm.rows.own()).collect();
    assert_eq!(rows, [Some(0), Some(1)]);
    assert_eq!(stage.envoy.count("rows_claimed"), 2);
}

#[test]
fn a_row_left_behind_is_claimed_again() {
    let mut stage = Stage::new();
    stage.prompt(0..64);
    let claims = |stage: &Stage, at: usize| stage.threads[at].vm.rows.own();
    stage.envoy.pass(ROW_EXPIRY_MS - 1000);
    stage.request(1, &completion("base", 0..64));
    assert_eq!(claims(&stage, 1), Some(1), "the first row is still alive");

    stage.envoy.pass(2000);
    stage.threads.push(Thread::new(&stage.envoy));
    stage.request(2, &completion("base", 0..64));
    assert_eq!(claims(&stage, 2), Some(0));

    // The sleeper wakes up, notices, and takes another one.
    stage.threads[0].tick();
    assert_eq!(claims(&stage, 0), Some(2));
    assert_eq!(stage.envoy.count("rows_lost"), 1);
    assert_eq!(stage.row(0).entries.iter().map(|entry| entry.booking.requests).sum::<u32>(), 1);
}

#[test]
fn ticks_keep_a_row_alive_and_write_what_is_left_to_write() {
    let mut stage = Stage::new();
    let first = stage.prompt(0..64);
    stage.prompt(0..64);
    assert_eq!(
        stage.row(0).entries.iter().map(|entry| entry.booking.requests).sum::<u32>(),
        1,
        "written at most every 2 ms"
    );
    let period = |stage: &Stage| stage.threads[0].host.tick_period.get();
    assert_eq!(period(&stage), 2, "others need not wait for the next request");
    stage.envoy.pass(2);
    stage.threads[0].tick();
    assert_eq!(stage.row(0).entries.iter().map(|entry| entry.booking.requests).sum::<u32>(), 2);
    stage.envoy.pass(2);
    stage.threads[0].tick();
    assert_eq!(period(&stage), 100);
    let written = stage.row(0).written;
    stage.envoy.pass(500);
    stage.threads[0].tick();
    assert_eq!(stage.row(0).written, written, "nothing changed");
    stage.envoy.pass(500);
    stage.threads[0].tick();
    assert!(stage.row(0).written > written);
    stage.finish(0, &first);
}

#[test]
fn the_last_request_leaves_an_empty_row_at_once() {
    let mut stage = Stage::new();
    let exchange = stage.prompt(0..64);
    stage.finish(0, &exchange);
    assert!(stage.row(0).entries.iter().all(|entry| entry.booking.requests == 0 && entry.booking.peak_requests == 1));
    for _ in 0..3 {
        stage.envoy.pass(2000);
        stage.threads[0].tick();
    }
    assert!(stage.row(0).entries.is_empty(), "peaks last for seconds only");
}

#[test]
fn expired_rows_of_others_count_for_nothing() {
    let mut stage = Stage::new();
    let first = stage.prompt(0..64);
    let busy = stage.endpoints(0, &first)[0].clone();
    for (wait, avoided) in [(100, true), (ROW_EXPIRY_MS + 1, false)] {
        stage.envoy.pass(wait);
        stage.heartbeat();
        let mut chosen = Vec::new();
        for _ in 0..40 {
            let exchange = stage.request(1, &completion("base", 1000..1064));
            chosen.push(stage.endpoints(1, &exchange)[0].clone());
            stage.finish(1, &exchange);
        }
        assert_eq!(!chosen.contains(&busy), avoided, "{wait}");
    }
}

#[test]
fn a_row_that_cannot_be_read_is_taken_over_and_nobody_is_harmed() {
    let mut stage = Stage::new();
    stage.prompt(0..64);
    let host = &stage.threads[0].host;
    host.set_shared(&keys::load_row(0), b"\xff\xff", None).unwrap();
    stage.envoy.pass(10);
    stage.request(1, &completion("base", 0..64));
    assert_eq!(stage.threads[1].vm.rows.own(), Some(0));
}

#[test]
fn a_count_that_cannot_be_read_starts_anew() {
    let mut stage = Stage::new();
    stage.threads[0].host.set_shared(keys::ROWS, b"x", None).unwrap();
    stage.prompt(0..64);
    assert_eq!(stage.threads[0].vm.rows.own(), Some(0));
    let exchange = stage.prompt(0..64);
    assert_eq!(stage.endpoints(0, &exchange).len(), 3);
}

#[test]
fn a_row_says_what_its_vm_routes_by() {
    let mut stage = Stage::new();
    stage.prompt(0..64);
    let LoadRow { generation, .. } = stage.row(0);
    assert_eq!(generation.0, stage.generation);
    stage.push();
    stage.envoy.pass(1000);
    stage.threads[0].tick();
    assert_eq!(stage.row(0).generation.0, stage.generation);
}
