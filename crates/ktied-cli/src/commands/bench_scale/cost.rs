//! A model of what the messages of a step cost on a cluster: what a few processes measured, carried on to many.

/// What was measured, with `processes` of them.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(super) struct Messages {
    pub(super) processes: usize,
    /// A note from everyone to everyone.
    pub(super) note_ms: f64,
    /// The sum of next to nothing: latency alone.
    pub(super) smallest_sum_ms: f64,
    /// What a byte that is sent adds to a sum: copies and additions.
    pub(super) ms_per_megabyte: f64,
}

/// Notes of a step: what each process has found, and whether one was asked to stop.
const NOTES: f64 = 2.0;

impl Messages {
    /// Milliseconds of the messages of a step of R processes, of which R₀ were measured:
    ///
    /// 2·note·⌈log₂R⌉/⌈log₂R₀⌉ + smallest·(R−1)/(R₀−1) + 2·(R−1)/R·gradients·(1/local + 1/network)
    ///
    /// Notes go round by doubling. In a sum each process has a message for each other one. Every byte costs what it costs here and
    /// the time that the network takes, one after the other. Without `gbit_per_s` the network is what was measured.
    pub(super) fn step_ms(&self, processes: usize, gradient_bytes: f64, gbit_per_s: Option<f64>) -> f64 {
        if processes <= 1 {
            return 0.0;
        }
        let doublings = |processes: usize| processes.next_power_of_two().ilog2().max(1) as f64;
        let others = |processes: usize| processes.saturating_sub(1).max(1) as f64;
        let notes = NOTES * self.note_ms * doublings(processes) / doublings(self.processes);
        let latency = self.smallest_sum_ms * others(processes) / others(self.processes);
        let megabytes = sent(processes, gradient_bytes) / 1e6;
        // 1 Gbit/s is an eighth of a megabyte a millisecond.
        let network = gbit_per_s.map_or(0.0, |speed| 8.0 / speed);
        notes + latency + megabytes * (self.ms_per_megabyte + network)
    }
}

/// Bytes that a process sends to add up gradients: its numbers to those who add them, and its sums to all others.
pub(super) fn sent(processes: usize, gradient_bytes: f64) -> f64 {
    2.0 * gradient_bytes * processes.saturating_sub(1) as f64 / processes.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: Messages = Messages { processes: 2, note_ms: 0.01, smallest_sum_ms: 0.02, ms_per_megabyte: 0.5 };

    fn assert_close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12 * expected.max(1.0), "{found}, expected {expected}");
    }

    #[test]
    fn as_many_processes_as_were_measured_take_what_was_measured() {
        // Two send each half of four megabytes twice.
        assert_close(MEASURED.step_ms(2, 4e6, None), 2.0 * 0.01 + 0.02 + 4.0 * 0.5);
        let of_three = Messages { processes: 3, ..MEASURED };
        assert_close(of_three.step_ms(3, 3e6, None), 2.0 * 0.01 + 0.02 + 4.0 * 0.5);
    }

    #[test]
    fn one_process_says_nothing() {
        assert_close(MEASURED.step_ms(1, 4e6, Some(10.0)), 0.0);
    }

    #[test]
    fn a_network_adds_its_time_for_every_byte() {
        // 4 MB are 32 Mbit: 3.2 ms at 10 Gbit/s, 0.32 at 100.
        let here = MEASURED.step_ms(2, 4e6, None);
        assert_close(MEASURED.step_ms(2, 4e6, Some(10.0)) - here, 3.2);
        assert_close(MEASURED.step_ms(2, 4e6, Some(100.0)) - here, 0.32);
    }

    #[test]
    fn many_processes_send_everything_twice_in_a_message_to_each_other() {
        assert_close(sent(256, 4e6), 8e6 * 255.0 / 256.0);
        let expected = 2.0 * 0.01 * 8.0 + 0.02 * 255.0 + 7.96875 * 0.5;
        assert_close(MEASURED.step_ms(256, 4e6, None), expected);
    }
}
