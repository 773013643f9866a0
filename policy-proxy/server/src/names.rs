//! The metrics of this crate. Names are those that Prometheus' own clients use.

policy_core::metrics! {
    CPU = "process_cpu_seconds", "", "Processor time used, user and system, in seconds";
    THREADS = "process_threads", "", "Threads of the process";
    START = "process_start_time_seconds", "", "When the process began, in seconds since 1970";
    RESIDENT = "process_resident_memory_bytes", "", "Resident memory";
    VIRTUAL = "process_virtual_memory_bytes", "", "Virtual memory";
    OPEN_FDS = "process_open_fds", "", "Open file descriptors";
    MAX_FDS = "process_max_fds", "", "File descriptors that may be open";
}
