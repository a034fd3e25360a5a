//! `rust-client URL OBSERVATION.json`: two intervals of a node, their experience, and an observation that is refused.
//! Prints what it was told, as JSON.

use std::{env, error::Error, fs};

use osml::types::{Decision, Experience, Experiences, Observation};
use serde_json::json;

#[allow(dead_code)] // a generator writes all operations, and what they may need
mod osml {
    include!(concat!(env!("OUT_DIR"), "/client.rs"));
}

/// The next interval, after the decision was applied.
fn after(before: &Observation, decision: &Decision) -> Result<Observation, Box<dyn Error>> {
    let mut next = before.clone();
    next.seq += 1;
    next.time_s += next.interval_s;
    next.partition = Some(decision.partition.clone());
    next.assignments = decision.assignments.clone();
    next.policy_state = decision
        .policy_state
        .as_deref()
        .map(str::parse)
        .transpose()?;
    Ok(next)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = env::args().collect();
    let client = osml::Client::new(&given[1]);
    let first: Observation = serde_json::from_str(&fs::read_to_string(&given[2])?)?;
    let decision = client.decide(&first).await?;
    let second = after(&first, &decision)?;
    let next = client.decide(&second).await?;

    let learned = Experience {
        before: first.clone(),
        decision: decision.clone(),
        after: second.clone(),
        schema: Default::default(),
    };
    let receipt = client
        .add_experiences(&Experiences {
            experiences: vec![learned],
        })
        .await?;

    let mut wrong = first;
    wrong.services[0].target_ms = Some(0.0);
    let refused = match client.decide(&wrong).await {
        Err(osml::Error::ErrorResponse(answer)) => {
            let status = answer.status().as_u16();
            let error = answer.into_inner().error;
            json!({"status": status, "code": error.code, "field": error.field, "message": error.message})
        }
        other => return Err(format!("expected a typed error, got {other:?}").into()),
    };
    println!(
        "{}",
        json!({
            "status": next.status().as_u16(),
            "unknown": next.headers().get("osml-unknown-keys").is_some(),
            "decisions": [decision.into_inner(), next.into_inner()],
            "asked_again": second,
            "receipt": receipt.into_inner(),
            "refused": refused,
        })
    );
    Ok(())
}
