// SPDX-License-Identifier: GPL-2.0
//! The answer of a check, and what it has found.

use serde::Serialize;

use crate::waiting::Call;

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The question in a few words, always the same.
    pub name: &'static str,
    /// The answer.
    #[serde(flatten)]
    pub state: State,
}

/// How a check came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// Nothing is wrong.
    Good {
        /// What was looked at.
        note: String,
    },
    /// It could not be made.
    Skipped {
        /// What is missing for it.
        why: String,
    },
    /// Something is wrong.
    Found {
        /// Each thing that is.
        findings: Vec<Finding>,
    },
}

/// Something that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub next_step: String,
    /// The process that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// The thread that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<i32>,
    /// The device that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The calls that it is about, each made by who serves the one before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
}

impl State {
    /// What was found.
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Found { findings } => findings,
            _ => &[],
        }
    }

    /// The answer of a check that was made; `note` is for the good one.
    pub fn of(findings: Vec<Finding>, note: impl Into<String>) -> Self {
        match findings.is_empty() {
            true => Self::Good { note: note.into() },
            false => Self::Found { findings },
        }
    }
}
