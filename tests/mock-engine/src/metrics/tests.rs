use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Family name to kind and label sets, for families that start with `prefix`.
fn families(text: &str, prefix: &str) -> BTreeMap<String, (String, BTreeSet<Vec<String>>)> {
    let mut found: BTreeMap<String, (String, BTreeSet<Vec<String>>)> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            current = name.to_owned();
            if name.starts_with(prefix) {
                found.insert(current.clone(), (kind.to_owned(), BTreeSet::new()));
            }
        } else if !line.starts_with('#')
            && let Some((_, labels)) = found.get_mut(&current)
        {
            labels.insert(label_names(line));
        }
    }
    found
}

fn label_names(line: &str) -> Vec<String> {
    let inside = line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(inside, _)| inside);
    inside.split("\",").filter_map(|pair| pair.split_once('=')).map(|(name, _)| name.to_owned()).collect()
}

fn facts() -> ServerFacts {
    ServerFacts {
        model_name: "tiny".to_owned(),
        started: 1_796_050_941.5,
        block_size: 32,
        num_blocks: 2_048,
        max_model_len: 16_384,
        http_requests: Vec::new(),
        transfers: Vec::new(),
    }
}

#[test]
fn families_kinds_and_labels_equal_a_recorded_scrape() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/vllm-metrics.txt");
    let recorded = std::fs::read_to_string(path).unwrap();
    let ours = render(&facts(), &[RankMetrics::default()]);
    let (expected, found) = (families(&recorded, "vllm:"), families(&ours, "vllm:"));
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    assert_eq!(found, expected);
    // Bucket bounds and the values of enumerating labels too: the sample names without their numbers.
    let series = |text: &str| -> BTreeSet<String> {
        let named = text.lines().filter(|line| line.starts_with("vllm:") && !line.starts_with("vllm:cache_config"));
        named.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
    };
    assert_eq!(series(&ours), series(&recorded));
}

#[test]
fn numbers_come_out_where_they_belong() {
    let mut busy = RankMetrics { running: 3, waiting: 2, deferred: 1, kv_usage: 0.25, ..RankMetrics::default() };
    busy.scheduler.prefix_hits = 640;
    busy.time_to_first_token.observe(0.03);
    busy.time_to_first_token.observe(0.02);
    let text = render(&facts(), &[RankMetrics::default(), busy]);
    for line in [
        "vllm:num_requests_running{engine=\"0\",model_name=\"tiny\"} 0.0",
        "vllm:num_requests_running{engine=\"1\",model_name=\"tiny\"} 3.0",
        "vllm:num_requests_waiting_by_reason{engine=\"1\",model_name=\"tiny\",reason=\"capacity\"} 1.0",
        "vllm:kv_cache_usage_perc{engine=\"1\",model_name=\"tiny\"} 0.25",
        "vllm:prefix_cache_hits_total{engine=\"1\",model_name=\"tiny\"} 640.0",
        "vllm:time_to_first_token_seconds_bucket{engine=\"1\",le=\"0.01\",model_name=\"tiny\"} 0.0",
        "vllm:time_to_first_token_seconds_bucket{engine=\"1\",le=\"0.02\",model_name=\"tiny\"} 1.0",
        "vllm:time_to_first_token_seconds_bucket{engine=\"1\",le=\"0.04\",model_name=\"tiny\"} 2.0",
        "vllm:time_to_first_token_seconds_count{engine=\"1\",model_name=\"tiny\"} 2.0",
        "process_start_time_seconds 1796050941.5",
    ] {
        assert!(text.lines().any(|found| found == line), "missing {line}");
    }
}
