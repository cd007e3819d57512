use filter::config::Config;

#[test]
fn configurations_of_the_checked_in_envoy_are_accepted() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../envoy");
    let mut found = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            if let Some(json) = line.trim().strip_prefix("value: '").and_then(|rest| rest.strip_suffix('\'')) {
                Config::parse(json.as_bytes()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                found += 1;
            }
        }
    }
    assert!(found >= 2, "only {found} configurations found");
}

#[test]
fn requests_to_an_entry_with_a_refused_configuration_are_served_and_cannot_choose_a_worker() {
    use filter::host::fake::FakeStream;

    for (path, unrouted) in [("/v1/completions", Some("{\"unrouted\":\"bad_configuration\"}")), ("/v1/models", None)] {
        let stage = crate::stage::Stage::new();
        let thread = &stage.threads[0];
        let forged = ("x-gateway-destination-endpoint", "1.2.3.4:5");
        let headers = [(":path", path), forged, forged];
        thread.host.streams.borrow_mut().insert(7, FakeStream::with_headers(&headers));
        thread.host.set_current(7);
        filter::flow::pass_unconfigured(&thread.vm, &thread.host);
        let seen = thread.host.streams.borrow_mut().remove(&7).unwrap();
        assert!(seen.request_header("x-gateway-destination-endpoint").is_empty());
        assert_eq!(seen.filter_state.get("kv_decision").map(String::as_str), unrouted);
        assert_eq!(stage.envoy.count("unrouted.bad_configuration"), u64::from(unrouted.is_some()));
    }
}
