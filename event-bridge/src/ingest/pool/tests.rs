use super::*;

fn stores(first: u32, count: u32) -> StreamEvent {
    stores_of(8, first, count, false)
}

/// The same behind a block that nobody knows.
fn orphaned(first: u32, count: u32) -> StreamEvent {
    stores_of(8, first, count, true)
}

/// A batch of vLLM's first layout that stores `count` blocks of `size` tokens, named from `first` on.
fn stores_of(size: u32, first: u32, count: u32, orphaned: bool) -> StreamEvent {
    let mut payload = vec![0x93, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0x91, 0x96, 0xab];
    payload.extend_from_slice(b"BlockStored");
    let array = |payload: &mut Vec<u8>, numbers: std::ops::Range<u32>| {
        payload.push(0xdd);
        payload.extend_from_slice(&(numbers.len() as u32).to_be_bytes());
        for number in numbers {
            payload.push(0xce);
            payload.extend_from_slice(&number.to_be_bytes());
        }
    };
    array(&mut payload, first..first + count);
    payload.extend_from_slice(if orphaned { &[0xce, 0xff, 0xff, 0xff, 0xff] } else { &[0xc0] });
    array(&mut payload, first * size..(first + count) * size);
    payload.extend_from_slice(&[size as u8, 0xc0, 0]);
    StreamEvent::Live { seq: 0, payload: payload.into(), received: Instant::now() }
}

#[test]
fn beyond_the_pools_bound_of_engine_blocks_the_largest_target_is_cleared() {
    let mut ingest = Ingest::new(IngestConfig { max_pool_pages: 1000, ..IngestConfig::default() });
    let slots = [Slot(0), Slot(1), Slot(2)];
    for slot in slots {
        ingest.add_target(slot, SourceSpec::default());
        ingest.set_parity(slot, Parity::Shown);
        ingest.handle(slot, StreamEvent::Connected, Instant::now());
    }
    let shown =
        |ingest: &Ingest| slots.map(|slot| ingest.report(slot).map(|report| (report.pages, report.reason)).unwrap());
    ingest.handle(slots[0], stores(0, 400), Instant::now());
    ingest.handle(slots[1], stores(1000, 500), Instant::now());
    ingest.handle(slots[2], stores(2000, 100), Instant::now());
    assert_eq!(shown(&ingest).map(|(pages, _)| pages), [400, 500, 100]);
    ingest.remove_target(slots[0]);
    ingest.add_target(slots[0], SourceSpec::default());
    ingest.set_parity(slots[0], Parity::Shown);
    ingest.handle(slots[0], StreamEvent::Connected, Instant::now());
    ingest.handle(slots[0], stores(0, 450), Instant::now());
    assert_eq!(shown(&ingest), [(450, Reason::InOrder), (0, Reason::Overflow), (100, Reason::InOrder)]);
}

/// A pool with a replayed target, and what a former bridge saved of it: `count` blocks of eight tokens.
fn saved(count: u32) -> Saved {
    let mut ingest = Ingest::new(IngestConfig::default());
    follow(&mut ingest, SLOTS[0]);
    ingest.handle(SLOTS[0], stores(0, count), Instant::now());
    ingest.save(SLOTS[0], "name".into()).unwrap()
}

const SLOTS: [Slot; 2] = [Slot(0), Slot(1)];

/// Connects a target whose engine has published nothing yet.
fn follow(ingest: &mut Ingest, slot: Slot) {
    ingest.add_target(slot, SourceSpec { replay: true, ..SourceSpec::default() });
    ingest.set_parity(slot, Parity::Shown);
    let asked = ingest.handle(slot, StreamEvent::Connected, Instant::now());
    let [Action::Replay { id, from: 0 }] = asked[..] else { panic!("{asked:?}") };
    ingest.handle(slot, StreamEvent::ReplayEnd { id, complete: true }, Instant::now());
}

#[test]
fn restored_blocks_count_towards_the_pools_bound() {
    let saved = saved(600);
    let mut ingest = Ingest::new(IngestConfig { max_pool_pages: 1000, ..IngestConfig::default() });
    for slot in SLOTS {
        ingest.add_target(slot, SourceSpec { replay: true, ..SourceSpec::default() });
        assert!(ingest.restore(slot, &saved));
    }
    let pages: u64 = SLOTS.iter().map(|slot| ingest.report(*slot).unwrap().pages).sum();
    assert_eq!((pages, ingest.kept.pages), (600, 600));
    ingest.remove_target(SLOTS[0]);
    ingest.remove_target(SLOTS[1]);
    assert_eq!(ingest.kept.pages, 0);
}

#[test]
fn whoever_holds_back_or_waits_for_most_gives_it_up_beyond_the_pools_bound() {
    let limits =
        IngestConfig { max_pool_held_bytes: 50_000, max_pool_orphan_bytes: 400_000, ..IngestConfig::default() };
    let mut ingest = Ingest::new(limits);
    SLOTS.iter().for_each(|slot| follow(&mut ingest, *slot));
    let now = Instant::now();
    let batch = |seq: u64, event| match event {
        StreamEvent::Live { payload, received, .. } => StreamEvent::Live { seq, payload, received },
        other => other,
    };
    // A gap: everything is held back while the engine is asked.
    let held = |ingest: &Ingest| SLOTS.map(|slot| ingest.report(slot).unwrap().held_batches);
    ingest.handle(SLOTS[0], batch(5, stores(0, 10)), now);
    for seq in 5.. {
        ingest.handle(SLOTS[1], batch(seq, stores(1000, 100)), now);
        if ingest.kept.held_bytes < 5000 {
            break;
        }
    }
    assert_eq!(held(&ingest), [1, 0]);
    assert!(SLOTS.iter().all(|slot| ingest.state(*slot).unwrap() == (SourceState::Warm, Reason::Synchronizing)));

    let mut ingest = Ingest::new(limits);
    for slot in SLOTS {
        ingest.add_target(slot, SourceSpec::default());
        ingest.handle(slot, StreamEvent::Connected, now);
    }
    let orphans = |ingest: &Ingest| SLOTS.map(|slot| ingest.report(slot).unwrap().orphans);
    ingest.handle(SLOTS[0], orphaned(0, 10), now);
    for first in 1..1000 {
        ingest.handle(SLOTS[1], batch(first, orphaned(first as u32 * 1000, 100)), now);
        if orphans(&ingest)[1] == 0 {
            break;
        }
    }
    assert_eq!(orphans(&ingest), [10, 0]);
    assert!(ingest.kept.orphan_bytes < 400_000);
}

#[test]
fn blocks_that_an_engine_asleep_has_lost_leave_room_in_the_pool() {
    let mut ingest = Ingest::new(IngestConfig::default());
    follow(&mut ingest, SLOTS[0]);
    ingest.handle(SLOTS[0], stores(0, 100), Instant::now());
    assert_eq!(ingest.kept.pages, 100);
    ingest.hear(SLOTS[0], EngineSays { asleep: true, ..EngineSays::default() });
    assert_eq!(ingest.kept.pages, 0);
}

#[test]
fn what_was_restored_in_blocks_of_another_size_is_asked_for_again() {
    let saved = saved(50);
    let mut ingest = Ingest::new(IngestConfig::default());
    ingest.add_target(SLOTS[1], SourceSpec { replay: true, ..SourceSpec::default() });
    assert!(ingest.restore(SLOTS[1], &saved));
    ingest.set_parity(SLOTS[1], Parity::Shown);
    let now = Instant::now();
    let asked = ingest.handle(SLOTS[1], StreamEvent::Connected, now);
    let [Action::Replay { id, from: 0 }] = asked[..] else { panic!("{asked:?}") };
    let StreamEvent::Live { payload, .. } = stores(0, 50) else { panic!() };
    ingest.handle(SLOTS[1], StreamEvent::Replayed { id, seq: 0, payload }, now);
    ingest.handle(SLOTS[1], StreamEvent::ReplayEnd { id, complete: true }, now);
    assert_eq!(ingest.report(SLOTS[1]).unwrap().pages, 50);
    // Another engine's blocks show that the pool's have sixteen tokens.
    ingest.add_target(SLOTS[0], SourceSpec::default());
    ingest.handle(SLOTS[0], StreamEvent::Connected, now);
    ingest.handle(SLOTS[0], stores_of(16, 0, 10, false), now);
    assert_eq!(ingest.block_size().map(BlockSize::tokens), Some(16));
    let pages = SLOTS.map(|slot| ingest.report(slot).unwrap().pages);
    assert_eq!((pages, ingest.kept.pages), ([10, 0], 10));
    assert_ne!(ingest.state(SLOTS[1]).unwrap().0, SourceState::Exact);
    assert!(matches!(ingest.tick(now)[..], [(slot, Action::Replay { from: 0, .. })] if slot == SLOTS[1]));
    assert_eq!(ingest.tick(now), []);
    let SourceReport { restarts, losses, .. } = ingest.report(SLOTS[1]).unwrap();
    assert_eq!((restarts, losses), (0, 0));
}

#[test]
fn whoever_loses_blocks_to_the_bound_is_not_exact_any_more() {
    let limits = kv_routing::index::IndexLimits { max_blocks: 1024 };
    let mut ingest = Ingest::new(IngestConfig { limits, ..IngestConfig::default() });
    let slots = [Slot(0), Slot(1), Slot(2)];
    for slot in slots {
        ingest.add_target(slot, SourceSpec::default());
        ingest.set_parity(slot, Parity::Shown);
        ingest.handle(slot, StreamEvent::Connected, Instant::now());
    }
    let reasons = |ingest: &Ingest| slots.map(|slot| ingest.report(slot).unwrap().reason);
    ingest.handle(slots[0], stores(0, 400), Instant::now());
    ingest.handle(slots[1], stores(1000, 600), Instant::now());
    let report = ingest.report(slots[1]).unwrap();
    assert!(report.bytes >= 600 * 24 && report.pages == 600, "{report:?}");
    assert_eq!(reasons(&ingest), [Reason::InOrder, Reason::InOrder, Reason::NoEvents]);
    // It fits, and the least recently stored of the others goes.
    ingest.handle(slots[2], stores(2000, 200), Instant::now());
    assert_eq!(reasons(&ingest), [Reason::IndexBound, Reason::InOrder, Reason::InOrder]);
    assert_eq!(ingest.index().stats().blocks, 800);
}
