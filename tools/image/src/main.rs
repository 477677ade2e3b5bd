//! `cargo run -p hustings-image -- hustings.tar`: writes the image of Hustings as an archive.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;
use hustings_image::{Binary, Build, Image, ImageName};

/// Writes the image of Hustings as an archive, without a container runtime
///
/// The archive is for `kind load image-archive`, `ctr images import`, `podman load` and `docker load`. The same binary
/// always makes the same archive.
#[derive(Parser)]
#[command(name = "hustings-image", version)]
struct Arguments {
    /// The archive to write; an existing file is replaced
    #[arg(value_name = "FILE")]
    archive: PathBuf,
    /// A static Linux binary of hustings; without it, this command builds one
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// The Rust target of the build; the default is this machine's
    #[arg(long, value_name = "TRIPLE", conflicts_with = "binary")]
    target: Option<String>,
    /// The Cargo profile of the build; the default is for production and takes minutes
    #[arg(long, value_name = "PROFILE", default_value = "release", conflicts_with = "binary")]
    profile: String,
    /// Name and tag of the image; the default is the image of the chart
    #[arg(long, value_name = "NAME:TAG", default_value_t)]
    name: ImageName,
}

fn main() -> anyhow::Result<()> {
    let Arguments { archive, binary, target, profile, name } = Arguments::parse();
    let path = match binary {
        Some(path) => path,
        None => Build::new(target, profile)?.run()?,
    };
    let image = Image { name, binary: Binary::read(&path)? };
    let mut file = fs::File::create(&archive).with_context(|| format!("cannot create {}", archive.display()))?;
    let digest = image.write(&mut file).with_context(|| format!("cannot write {}", archive.display()))?;
    let megabytes = file.metadata()?.len().div_ceil(1_000_000);
    eprintln!("wrote {} ({megabytes} MB): {}, linux/{}", archive.display(), image.name, image.binary.architecture());
    println!("{digest}");
    Ok(())
}
