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
