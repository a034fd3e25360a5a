//! Generates the client from the document in the file OSML_OPENAPI.

use std::{env, error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed=OSML_OPENAPI");
    let document = env::var("OSML_OPENAPI")
        .map_err(|_| "OSML_OPENAPI is not set, expected the path of openapi.json")?;
    println!("cargo::rerun-if-changed={document}");
    let document = serde_json::from_str(&fs::read_to_string(document)?)?;
    let tokens = progenitor::Generator::default().generate_tokens(&document)?;
    let code = prettyplease::unparse(&syn::parse2(tokens)?);
    Ok(fs::write(
        Path::new(&env::var("OUT_DIR")?).join("client.rs"),
        code,
    )?)
}
