//! Processor time and memory of a process, from `/proc`.

use std::fs;
use std::time::Duration;

/// `/proc/PID/stat` counts in hundredths of a second on every Linux that Envoy supports.
const TICK: Duration = Duration::from_millis(10);

/// Time all threads of the process have spent, in user and kernel mode.
pub fn time(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("the process runs");
    // The second field, the program's name in parentheses, may contain spaces.
    let (_, fields) = stat.rsplit_once(") ").expect("fields after the name");
    let ticks = fields.split(' ').skip(11).take(2).map(|field| field.parse::<u32>().expect("number of ticks")).sum();
    TICK * ticks
}

/// Resident memory in MiB.
pub fn resident_mib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("resident size");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("KiB") / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_time_grows_with_work() {
        let me = std::process::id();
        let before = time(me);
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_millis(60) {
            std::hint::black_box(0);
        }
        assert!(time(me) > before);
        assert!(resident_mib(me) > 0);
    }
}
