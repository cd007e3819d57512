use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use kv_routing::wire::{BridgeShare, Epoch, Manifest, PoolId, PoolManifest, TokenizerRef, UnixMillis, keys};

use super::desired::{Desired, PolicyView, PoolView, TokenizerParts};
use super::draft::Draft;
use super::link::Link;

const NOW: UnixMillis = UnixMillis(1);

fn view(version: u64) -> PoolView {
    let manifest = PoolManifest {
        id: PoolId(0),
        name: "p".into(),
        models: vec!["m".into()],
        adapters: vec![],
        block_size: Some(16),
        page_bits: 0,
        tokenizer: None,
        bridge: BridgeShare::None,
        cluster: "workers".into(),
        handoff: kv_routing::handoff::Protocol::Nixl,
        prefill_cluster: "prefill".into(),
        stale_after_ms: 3000,
        stale_decay_ms: 0,
        predict_ms: 0,
        predict_without_events_ms: 0,
    };
    PoolView { manifest, table: Bytes::from_static(b"table"), table_version: version, tokenizer: None, settled: true }
}

fn tokenizer(id: u64, parts: usize) -> Arc<TokenizerParts> {
    let part = Bytes::from(vec![0; 600 << 10]);
    let reference = TokenizerRef { id, parts: parts as u32, bytes: 1 };
    Arc::new(TokenizerParts { reference, parts: vec![part; parts], added: BTreeSet::new() })
}

fn desired(view: PoolView) -> Desired {
    Desired { pools: vec![Some(Arc::new(view))], policy: None }
}

/// One push with the given pages, acknowledged. Returns its keys and manifest.
fn push(
    link: &mut Link,
    desired: &Desired,
    page_bits: u8,
    complete: bool,
    pages: &[u32],
) -> (Vec<String>, Option<Manifest>) {
    let draft = build(link, desired, page_bits, complete, pages);
    link.acknowledged(&draft);
    described(&draft)
}

fn build(link: &mut Link, desired: &Desired, page_bits: u8, complete: bool, pages: &[u32]) -> Draft {
    let mut draft = link.draft(desired);
    let pages = pages.iter().map(|page| (*page, Bytes::from_static(b"page"))).collect();
    link.add_pages(&mut draft, 0, page_bits, complete, pages);
    link.add_manifest(&mut draft, desired, NOW).unwrap();
    draft
}

fn described(draft: &Draft) -> (Vec<String>, Option<Manifest>) {
    let keys = draft.keys().into_iter().map(str::to_owned).collect();
    (keys, draft.value(keys::MANIFEST).map(|bytes| Manifest::decode(bytes).unwrap()))
}

#[test]
fn a_fill_ends_with_the_manifest_and_not_before_all_pages_arrived() {
    let mut link = Link::new(Epoch(7), 1);
    let desired = desired(view(1));
    let (keys, manifest) = push(&mut link, &desired, 1, false, &[0, 1]);
    assert_eq!(keys, ["kv/targets/0", "kv/p/0/1/0", "kv/p/0/1/1"]);
    assert!(manifest.is_none() && link.filling());
    let (keys, manifest) = push(&mut link, &desired, 1, true, &[]);
    assert_eq!(keys, ["kv/manifest"]);
    let manifest = manifest.unwrap();
    assert_eq!((manifest.header.epoch, manifest.header.generation.0, manifest.pools[0].page_bits), (Epoch(7), 1, 1));
    assert!(!link.filling());
    assert_eq!(link.covered().unwrap().tables, [1]);
}

#[test]
fn a_tokenizer_is_named_when_its_last_part_is_there() {
    let mut link = Link::new(Epoch(7), 1);
    push(&mut link, &desired(view(1)), 0, true, &[]);
    assert!(!link.filling());
    let mut with = view(1);
    with.tokenizer = Some(tokenizer(5, 3));
    let wanted = with.tokenizer.as_ref().unwrap().reference;
    let with = desired(with);
    for (part, named) in [(0, None), (1, None), (2, Some(wanted))] {
        let (keys, manifest) = push(&mut link, &with, 0, true, &[]);
        assert_eq!(keys, [format!("kv/tokenizer/0000000000000005/{part}"), "kv/manifest".to_owned()]);
        assert_eq!(manifest.unwrap().pools[0].tokenizer, named);
    }
    // The next one does not displace it before it is complete.
    let mut other = view(1);
    other.tokenizer = Some(tokenizer(6, 2));
    let other = desired(other);
    assert_eq!(push(&mut link, &other, 0, true, &[]).1.unwrap().pools[0].tokenizer, Some(wanted));
    assert_eq!(push(&mut link, &other, 0, true, &[]).1.unwrap().pools[0].tokenizer.unwrap().id, 6);
    // Back to the first: nothing has to be sent again.
    assert_eq!(push(&mut link, &with, 0, true, &[]).0, ["kv/manifest"]);
}

#[test]
fn a_grown_page_set_is_named_when_all_of_it_arrived() {
    let mut link = Link::new(Epoch(7), 1);
    let desired = desired(view(1));
    push(&mut link, &desired, 1, true, &[]);
    let bits = |pushed: (Vec<String>, Option<Manifest>)| pushed.1.unwrap().pools[0].page_bits;
    assert_eq!(bits(push(&mut link, &desired, 2, false, &[0, 1])), 1);
    assert_eq!(bits(push(&mut link, &desired, 2, false, &[2, 3])), 1);
    assert_eq!(bits(push(&mut link, &desired, 2, true, &[1])), 2);
}

#[test]
fn the_generation_counts_changes_of_everything_but_pages() {
    let mut link = Link::new(Epoch(7), 1);
    let generation = |pushed: (Vec<String>, Option<Manifest>)| pushed.1.unwrap().header.generation.0;
    let first = desired(view(1));
    assert_eq!(generation(push(&mut link, &first, 0, true, &[0])), 1);
    assert_eq!(generation(push(&mut link, &first, 0, true, &[0])), 1);
    let mut changed = desired(view(2));
    let (keys, manifest) = push(&mut link, &changed, 0, true, &[]);
    assert_eq!(keys, ["kv/targets/0", "kv/manifest"]);
    assert_eq!(manifest.unwrap().header.generation.0, 2);
    changed.policy = Some(PolicyView { version: 3, bytes: Bytes::from_static(b"policy") });
    let (keys, manifest) = push(&mut link, &changed, 0, true, &[]);
    assert_eq!(keys, ["kv/policy", "kv/manifest"]);
    assert_eq!((manifest.as_ref().unwrap().header.generation.0, manifest.unwrap().policy_version), (3, 3));
}

#[test]
fn what_was_lost_is_sent_again_under_a_new_generation() {
    let mut link = Link::new(Epoch(7), 1);
    push(&mut link, &desired(view(1)), 0, true, &[]);
    let lost = build(&mut link, &desired(view(2)), 0, true, &[]);
    assert_eq!(described(&lost).1.unwrap().header.generation.0, 2);
    link.lost();
    // It may have arrived: VMs may have taken generation 2 for table 2.
    let (keys, manifest) = push(&mut link, &desired(view(3)), 0, true, &[]);
    assert_eq!(keys, ["kv/targets/0", "kv/manifest"]);
    assert_eq!(manifest.unwrap().header.generation.0, 3);
}

#[test]
fn an_envoy_that_lost_everything_is_sent_everything() {
    let mut link = Link::new(Epoch(7), 1);
    let mut with = view(1);
    with.tokenizer = Some(tokenizer(5, 1));
    let desired = desired(with);
    push(&mut link, &desired, 0, true, &[0]);
    assert_eq!(push(&mut link, &desired, 0, true, &[]).0, ["kv/manifest"]);
    link.forget();
    let (keys, manifest) = push(&mut link, &desired, 0, false, &[0]);
    assert_eq!(keys, ["kv/targets/0", "kv/tokenizer/0000000000000005/0", "kv/p/0/0/0"]);
    assert!(manifest.is_none());
    assert_eq!(push(&mut link, &desired, 0, true, &[]).1.unwrap().header.generation.0, 2);
}

#[test]
fn a_pool_that_comes_late_is_shown_when_its_pages_are_there() {
    let mut link = Link::new(Epoch(7), 2);
    let one = Desired { pools: vec![Some(Arc::new(view(1))), None], policy: None };
    push(&mut link, &one, 0, true, &[]);
    let mut late = view(1);
    late.manifest.id = PoolId(1);
    let two = Desired { pools: vec![Some(Arc::new(view(1))), Some(Arc::new(late))], policy: None };
    let (keys, manifest) = push(&mut link, &two, 0, true, &[]);
    assert_eq!((keys, manifest.unwrap().pools.len()), (vec!["kv/targets/1".to_owned(), "kv/manifest".to_owned()], 1));
    let mut draft = link.draft(&two);
    link.add_pages(&mut draft, 1, 0, true, vec![]);
    link.add_manifest(&mut draft, &two, NOW).unwrap();
    assert_eq!(described(&draft).1.unwrap().pools.len(), 2);
}

#[test]
fn values_that_do_not_fit_wait_for_the_next_push() {
    let mut link = Link::new(Epoch(7), 2);
    let mut large = view(1);
    large.table = Bytes::from(vec![0; 800 << 10]);
    let mut other = large.clone();
    other.manifest.id = PoolId(1);
    let desired = Desired { pools: vec![Some(Arc::new(large)), Some(Arc::new(other))], policy: None };
    let mut draft = link.draft(&desired);
    link.add_pages(&mut draft, 0, 0, true, vec![]);
    link.add_pages(&mut draft, 1, 0, true, vec![]);
    link.add_manifest(&mut draft, &desired, NOW).unwrap();
    assert_eq!((draft.keys(), draft.more), (vec!["kv/targets/0"], true));
    link.acknowledged(&draft);
    assert_eq!(push(&mut link, &desired, 0, true, &[]).0, ["kv/targets/1", "kv/manifest"]);
}
