//! State of an open request and its response, for the counters.

use super::timer::Progress;
use crate::headers;
use crate::telemetry::{Elapsed, Outcome, Series, SeriesId};
use http::{HeaderMap, Response, StatusCode};
use policy_core::EffectiveTimeouts;
use std::time::{Duration, Instant};

/// An open request, as counters see it.
#[derive(Debug)]
pub struct Exchange {
    /// The series of the request, in the counters of the policy that permits it.
    pub series: SeriesId,
    started: Instant,
    /// True for a gRPC request.
    grpc: bool,
    upload: Upload,
    status: Option<StatusCode>,
    grpc_status: Option<u16>,
    /// True once the first bytes of the response were sent.
    answered: bool,
    /// True once the end was counted.
    ended: bool,
    /// The last frame of either body, if frames are tracked.
    last_frame: Option<Instant>,
    /// True if a bound begins with the end of the request.
    awaits_upload: bool,
}

/// State of the request's body.
#[derive(Clone, Copy, Debug)]
enum Upload {
    None,
    Going,
    /// Ended after this time.
    Ended(Duration),
}

impl Exchange {
    /// Creates an exchange that began at `started` and is counted in `series`.
    pub fn new(series: SeriesId, started: Instant, grpc: bool) -> Self {
        Self {
            series,
            started,
            grpc,
            upload: Upload::None,
            status: None,
            grpc_status: None,
            answered: false,
            ended: false,
            last_frame: None,
            awaits_upload: false,
        }
    }

    /// Tracks the time of frames from now on, for a bound on the time without one.
    pub fn track_frames(&mut self) {
        self.last_frame = Some(self.started);
    }

    /// Tracks from now on what these bounds depend on.
    pub fn observe(&mut self, bounds: &EffectiveTimeouts) {
        if bounds.idle.is_some() {
            self.track_frames();
        }
        self.awaits_upload = bounds.response.is_some();
    }

    /// Records a head or a frame of either body.
    pub fn touch(&mut self) {
        if let Some(at) = &mut self.last_frame {
            *at = Instant::now();
        }
    }

    /// Returns the parts that are over.
    pub fn progress(&self) -> Progress {
        let request_ended = match self.upload {
            Upload::None => Some(self.started),
            Upload::Going => None,
            Upload::Ended(after) => self.started.checked_add(after),
        };
        Progress { request_ended, last_frame: self.last_frame }
    }

    /// Records that the request has a body, which is being sent.
    pub fn uploading(&mut self) {
        self.upload = Upload::Going;
    }

    /// Returns true while the request's body is being sent.
    pub fn is_uploading(&self) -> bool {
        matches!(self.upload, Upload::Going)
    }

    /// Records that the request's body was sent, or will not be. Returns true if a bound begins with
    /// that, so that who polls the bounds is to be woken.
    #[must_use]
    pub fn uploaded(&mut self) -> bool {
        let ended = matches!(self.upload, Upload::Going);
        if ended {
            self.upload = Upload::Ended(self.started.elapsed());
        }
        ended && self.awaits_upload
    }

    /// Records the response's head. A gRPC response without a body has its status there.
    pub fn begun<B>(&mut self, response: &Response<B>) {
        self.touch();
        self.status = Some(response.status());
        self.trailers(response.headers());
    }

    /// Records trailers: a gRPC response has its status there.
    pub fn trailers(&mut self, fields: &HeaderMap) {
        if self.grpc {
            self.grpc_status = headers::grpc_status(fields).or(self.grpc_status);
        }
    }

    /// Records a sent piece of the response's body; `last`: it is the last one.
    pub fn frame(&mut self, series: &Series, bytes: usize, last: bool) {
        series.response_frame(bytes);
        if !self.answered || last {
            let now = self.started.elapsed();
            self.first(series, now);
            if last {
                self.end(series, now, false);
            }
        }
    }

    /// Records the end of the response; `broken`: it is incomplete. Counted once.
    pub fn ended(&mut self, series: &Series, broken: bool) {
        if !self.ended {
            let now = self.started.elapsed();
            self.first(series, now);
            self.end(series, now, broken);
        }
    }

    fn first(&mut self, series: &Series, now: Duration) {
        if !std::mem::replace(&mut self.answered, true) {
            series.first_byte(now);
        }
    }

    fn end(&mut self, series: &Series, now: Duration, broken: bool) {
        let Some(status) = self.status else { return };
        self.ended = true;
        let outcome = Outcome { status: status.as_u16(), grpc: self.grpc_status, broken };
        let upload = match self.upload {
            Upload::None => Duration::ZERO,
            Upload::Going => now,
            Upload::Ended(after) => after,
        };
        series.ended(outcome, Elapsed { upload, total: now });
    }
}
