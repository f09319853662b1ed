//! The same picture as pixels: our own SVG drawn with our own font, as a PNG.

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{FilterQuality, Pixmap, PixmapPaint, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Group, Image, ImageKind, Node, Options, Tree};

use super::font::FONT;

/// Pixels for each unit of the SVG.
pub(super) const ZOOM: f32 = 2.0;
/// Pictures with more pixels are drawn smaller: this is a quarter of a gigabyte while they are drawn.
const MAX_PIXELS: f32 = 64e6;

static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(FONT.to_vec());
    Arc::new(fonts)
});

/// Draws an SVG twice as large as it says.
///
/// # Errors
/// A sentence, if the SVG is not one of ours: not well formed, or of no size.
pub(super) fn png(svg: &str) -> Result<Vec<u8>, String> {
    let options = Options { fontdb: FONTS.clone(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| error.to_string())?;
    let (width, height) = (tree.size().width(), tree.size().height());
    let zoom = ZOOM.min((MAX_PIXELS / (width * height)).sqrt());
    let size = ((width * zoom).ceil() as u32, (height * zoom).ceil() as u32);
    let mut pixels = Pixmap::new(size.0, size.1).ok_or("a picture of no size")?;
    let zoom = Transform::from_scale(zoom, zoom);
    resvg::render(&tree, zoom, &mut pixels.as_mut());
    draw_images(tree.root(), zoom, &mut pixels)?;
    encode(&pixels).map_err(|error| error.to_string())
}

/// Draws the images, which resvg, built without decoders for the formats of the web, leaves out. They come last, so
/// nothing can be drawn over them.
fn draw_images(group: &Group, zoom: Transform, pixels: &mut Pixmap) -> Result<(), String> {
    for node in group.children() {
        match node {
            Node::Group(group) => draw_images(group, zoom, pixels)?,
            Node::Image(image) => draw_image(image, zoom, pixels)?,
            Node::Path(_) | Node::Text(_) => {}
        }
    }
    Ok(())
}

fn draw_image(image: &Image, zoom: Transform, pixels: &mut Pixmap) -> Result<(), String> {
    let ImageKind::PNG(png) = image.kind() else { return Err("an image that is no PNG".into()) };
    let source = Pixmap::decode_png(png).map_err(|error| error.to_string())?;
    let paint = PixmapPaint { quality: FilterQuality::Nearest, ..PixmapPaint::default() };
    pixels.draw_pixmap(0, 0, source.as_ref(), &paint, zoom.pre_concat(image.abs_transform()), None);
    Ok(())
}

/// A PNG without transparency: our pictures have a background.
fn encode(pixels: &Pixmap) -> Result<Vec<u8>, png::EncodingError> {
    let colours: Vec<u8> =
        pixels.pixels().iter().flat_map(|pixel| [pixel.red(), pixel.green(), pixel.blue()]).collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, pixels.width(), pixels.height());
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Balanced);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&colours)?;
    writer.finish()?;
    Ok(bytes)
}
