/* The part of libjpeg-turbo that Rust must not touch directly: its errors leave by longjmp, which may not cross Rust
 * frames. Every entry point here sets its own jump target, frees what it made, and returns a code and a message. */

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#define FEEDLINE_MESSAGE 200
/* A progressive file may have any number of scans, each a pass over all coefficients: more than this are an attack. */
#define FEEDLINE_MAX_SCANS 1000
/* Longest list of scans for the encoder. */
#define FEEDLINE_SCRIPT 200

enum { FEEDLINE_OK = 0, FEEDLINE_TRUNCATED = 1, FEEDLINE_CORRUPT = 2, FEEDLINE_UNSUPPORTED = 3, FEEDLINE_MISUSE = 4,
       FEEDLINE_OUT_OF_MEMORY = 5 };

typedef struct {
  struct jpeg_error_mgr base;
  jmp_buf escape;
  int code;
  char message[JMSG_LENGTH_MAX];
} feedline_error;

typedef struct {
  uint32_t width, height, components, precision;
  uint32_t color_space, progressive, arithmetic, lossless, restart_interval;
  uint32_t h[4], v[4];
} feedline_header;

typedef struct {
  uint32_t x, y, width, height;
  uint32_t scale;      /* output is scale/8 of the image; the box is in output pixels */
  uint32_t pixel_bytes; /* 3: RGB, 4: RGBX */
  uint32_t partial;    /* 1: let libjpeg-turbo skip rows and columns (sequential files only) */
  uint32_t stored_colors; /* 1: YCbCr stays as it is, and chroma samples are repeated, not interpolated */
  uint64_t max_pixels;
} feedline_request;

typedef struct {
  uint32_t width, height, channels, quality;
  uint32_t h, v; /* luma sampling factors against 1x1 chroma */
  uint32_t restart_interval, optimize, progressive, arithmetic;
  uint32_t rgb_colors; /* 1: store RGB without the YCbCr transform */
} feedline_encoding;

typedef struct {
  uint32_t count, components[4];
  uint32_t first, last, high, low; /* as in a scan's header */
} feedline_scan;

static void on_error(j_common_ptr info)
{
  feedline_error *error = (feedline_error *)info->err;
  (*info->err->format_message)(info, error->message);
  if (error->code == FEEDLINE_OK) {
    switch (info->err->msg_code) {
    case JERR_BAD_PRECISION:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_SOF_UNSUPPORTED:
    case JERR_NOT_COMPILED:
    case JERR_CCIR601_NOTIMPL:
      error->code = FEEDLINE_UNSUPPORTED;
      break;
    case JERR_OUT_OF_MEMORY:
      error->code = FEEDLINE_OUT_OF_MEMORY;
      break;
    default:
      error->code = FEEDLINE_CORRUPT;
    }
  }
  longjmp(error->escape, 1);
}

static void on_message(j_common_ptr info, int level)
{
  if (level < 0) info->err->num_warnings++;
}

static void no_output(j_common_ptr info) { (void)info; }

static void set_error(feedline_error *error)
{
  jpeg_std_error(&error->base);
  error->base.error_exit = on_error;
  error->base.emit_message = on_message;
  error->base.output_message = no_output;
  error->code = FEEDLINE_OK;
  error->message[0] = 0;
}

/* ---- Source: memory whose end is an error, where jpeg_mem_src would invent an end marker and only warn. ---- */

static void source_nothing(j_decompress_ptr info) { (void)info; }

static boolean source_end(j_decompress_ptr info)
{
  feedline_error *error = (feedline_error *)info->err;
  error->code = FEEDLINE_TRUNCATED;
  ERREXIT(info, JERR_INPUT_EOF);
  return FALSE;
}

static void source_skip(j_decompress_ptr info, long count)
{
  struct jpeg_source_mgr *source = info->src;
  if (count <= 0) return;
  if ((size_t)count > source->bytes_in_buffer) {
    source_end(info);
    return;
  }
  source->next_input_byte += count;
  source->bytes_in_buffer -= (size_t)count;
}

static void set_source(j_decompress_ptr info, struct jpeg_source_mgr *source, const uint8_t *bytes, size_t length)
{
  memset(source, 0, sizeof *source);
  source->init_source = source_nothing;
  source->fill_input_buffer = source_end;
  source->skip_input_data = source_skip;
  source->resync_to_restart = jpeg_resync_to_restart;
  source->term_source = source_nothing;
  source->next_input_byte = bytes;
  source->bytes_in_buffer = length;
  info->src = source;
}

static void watch_scans(j_common_ptr info)
{
  if (info->is_decompressor && ((j_decompress_ptr)info)->input_scan_number > FEEDLINE_MAX_SCANS) {
    ERREXIT(info, JERR_BAD_PROGRESSION);
  }
}

/* ---- Destination: a growing buffer that stays ours when an error jumps out (jpeg_mem_dest would leave it dangling). */

typedef struct {
  struct jpeg_destination_mgr base;
  uint8_t *bytes;
  size_t capacity;
} feedline_destination;

static void destination_start(j_compress_ptr info) { (void)info; }

static boolean destination_grow(j_compress_ptr info)
{
  feedline_destination *to = (feedline_destination *)info->dest;
  size_t capacity = to->capacity ? to->capacity * 2 : 65536;
  uint8_t *bytes = realloc(to->bytes, capacity);
  if (!bytes) ERREXIT1(info, JERR_OUT_OF_MEMORY, 0);
  to->base.next_output_byte = bytes + to->capacity;
  to->base.free_in_buffer = capacity - to->capacity;
  to->bytes = bytes;
  to->capacity = capacity;
  return TRUE;
}

static void destination_finish(j_compress_ptr info) { (void)info; }

static void set_destination(j_compress_ptr info, feedline_destination *to)
{
  to->base.init_destination = destination_start;
  to->base.empty_output_buffer = destination_grow;
  to->base.term_destination = destination_finish;
  info->dest = &to->base;
  destination_grow(info);
}

static size_t destination_length(const feedline_destination *to) { return to->capacity - to->base.free_in_buffer; }

static void report(const feedline_error *error, char *message)
{
  strncpy(message, error->message, FEEDLINE_MESSAGE - 1);
  message[FEEDLINE_MESSAGE - 1] = 0;
}

/* ---- Header ---- */

int feedline_turbo_header(const uint8_t *bytes, size_t length, feedline_header *out, char *message)
{
  struct jpeg_decompress_struct info;
  struct jpeg_source_mgr source;
  feedline_error error;
  int i;

  info.err = &error.base;
  set_error(&error);
  jpeg_create_decompress(&info);
  if (setjmp(error.escape)) {
    report(&error, message);
    jpeg_destroy_decompress(&info);
    return error.code;
  }
  set_source(&info, &source, bytes, length);
  jpeg_read_header(&info, TRUE);
  memset(out, 0, sizeof *out);
  out->width = info.image_width;
  out->height = info.image_height;
  out->components = (uint32_t)info.num_components;
  out->precision = (uint32_t)info.data_precision;
  out->color_space = (uint32_t)info.jpeg_color_space;
  out->progressive = info.progressive_mode ? 1 : 0;
  out->arithmetic = info.arith_code ? 1 : 0;
  out->restart_interval = info.restart_interval;
  for (i = 0; i < info.num_components && i < 4; i++) {
    out->h[i] = (uint32_t)info.comp_info[i].h_samp_factor;
    out->v[i] = (uint32_t)info.comp_info[i].v_samp_factor;
  }
  jpeg_destroy_decompress(&info);
  return FEEDLINE_OK;
}

/* ---- Decode ---- */

/* Pillow's conversion of Adobe's inverted CMYK to RGB: the stored value is 255 - ink. */
static uint8_t ink(unsigned stored, unsigned white)
{
  unsigned product = (255 - stored) * white + 128;
  return (uint8_t)(white - (((product >> 8) + product) >> 8));
}

static void copy_row(const uint8_t *from, uint8_t *to, uint32_t width, uint32_t pixel_bytes, J_COLOR_SPACE space)
{
  uint32_t i;
  for (i = 0; i < width; i++, to += pixel_bytes) {
    switch (space) {
    case JCS_GRAYSCALE:
      to[0] = to[1] = to[2] = *from++;
      break;
    case JCS_RGB:
      to[0] = *from++;
      to[1] = *from++;
      to[2] = *from++;
      break;
    case JCS_CMYK:
      to[0] = ink(from[0], from[3]);
      to[1] = ink(from[1], from[3]);
      to[2] = ink(from[2], from[3]);
      from += 4;
      break;
    default:
      memcpy(to, from, (size_t)width * pixel_bytes);
      return;
    }
    if (pixel_bytes == 4) to[3] = 255;
  }
}

static void set_parameters(j_decompress_ptr info, const feedline_request *request)
{
  info->dct_method = JDCT_ISLOW;
  info->do_fancy_upsampling = TRUE;
  info->do_block_smoothing = TRUE;
  info->scale_num = request->scale;
  info->scale_denom = 8;
  /* Lossless files allow no conversion, so grey and RGB are not converted here; copy_row expands them. */
  if (request->stored_colors && info->jpeg_color_space == JCS_YCbCr) {
    info->do_fancy_upsampling = FALSE;
    info->out_color_space = JCS_YCbCr;
  } else if (info->num_components == 4) {
    info->out_color_space = JCS_CMYK;
  } else if (info->jpeg_color_space == JCS_GRAYSCALE || info->jpeg_color_space == JCS_RGB) {
    info->out_color_space = info->jpeg_color_space;
  } else {
    info->out_color_space = request->pixel_bytes == 4 ? JCS_EXT_RGBX : JCS_EXT_RGB;
  }
}

int feedline_turbo_decode(const uint8_t *bytes, size_t length, const feedline_request *request, uint8_t *out,
                          size_t stride, uint32_t *warnings, char *message)
{
  struct jpeg_decompress_struct info;
  struct jpeg_source_mgr source;
  struct jpeg_progress_mgr progress;
  feedline_error error;
  uint8_t *volatile row = NULL;
  JDIMENSION left, covered;
  uint32_t y, in_bytes;

  info.err = &error.base;
  set_error(&error);
  jpeg_create_decompress(&info);
  if (setjmp(error.escape)) {
    *warnings = (uint32_t)error.base.num_warnings;
    report(&error, message);
    jpeg_destroy_decompress(&info);
    free(row);
    return error.code;
  }
  memset(&progress, 0, sizeof progress);
  progress.progress_monitor = watch_scans;
  info.progress = &progress;
  set_source(&info, &source, bytes, length);
  jpeg_read_header(&info, TRUE);
  if ((uint64_t)info.image_width * info.image_height > request->max_pixels) {
    error.code = FEEDLINE_MISUSE;
    ERREXIT(&info, JERR_IMAGE_TOO_BIG);
  }
  if (info.data_precision != 8) ERREXIT1(&info, JERR_BAD_PRECISION, info.data_precision);
  set_parameters(&info, request);
  jpeg_start_decompress(&info);
  if ((uint64_t)request->x + request->width > info.output_width ||
      (uint64_t)request->y + request->height > info.output_height) {
    error.code = FEEDLINE_MISUSE;
    ERREXIT(&info, JERR_WIDTH_OVERFLOW);
  }

  left = 0;
  covered = info.output_width;
  if (request->partial && !info.progressive_mode && !info.arith_code) {
    /* A margin of one chroma sample, since the crop's own edges are upsampled as if they were the image's. */
    JDIMENSION margin = 2 * (JDIMENSION)info.max_h_samp_factor;
    left = request->x > margin ? request->x - margin : 0;
    covered = request->x + request->width + margin - left;
    if (covered > info.output_width - left) covered = info.output_width - left;
    jpeg_crop_scanline(&info, &left, &covered);
  }
  in_bytes = (uint32_t)info.output_components;
  row = malloc((size_t)info.output_width * in_bytes);
  if (!row) ERREXIT1(&info, JERR_OUT_OF_MEMORY, 0);

  if (request->partial && !info.progressive_mode && request->y > 0) {
    jpeg_skip_scanlines(&info, request->y);
  } else {
    while (info.output_scanline < request->y) {
      JSAMPROW rows[1];
      rows[0] = row;
      jpeg_read_scanlines(&info, rows, 1);
    }
  }
  for (y = 0; y < request->height; y++) {
    JSAMPROW rows[1];
    rows[0] = row;
    jpeg_read_scanlines(&info, rows, 1);
    copy_row(row + (size_t)(request->x - left) * in_bytes, out + (size_t)y * stride, request->width,
             request->pixel_bytes, info.out_color_space);
  }
  *warnings = (uint32_t)error.base.num_warnings;
  jpeg_abort_decompress(&info);
  jpeg_destroy_decompress(&info);
  free(row);
  return FEEDLINE_OK;
}

/* ---- Transcode: the same coefficients as a baseline (sequential Huffman) file. ---- */

/* Whether the scans gave every coefficient of every component to its last bit. */
static int complete(j_decompress_ptr info)
{
  int component, i;
  if (!info->progressive_mode || !info->coef_bits) return 1;
  for (component = 0; component < info->num_components; component++) {
    for (i = 0; i < DCTSIZE2; i++) {
      if (info->coef_bits[component][i] != 0) return 0;
    }
  }
  return 1;
}

int feedline_turbo_to_baseline(const uint8_t *bytes, size_t length, uint64_t max_pixels, uint8_t **out,
                               size_t *out_length, char *message)
{
  struct jpeg_decompress_struct from;
  struct jpeg_compress_struct to;
  struct jpeg_source_mgr source;
  struct jpeg_progress_mgr progress;
  feedline_error error;
  feedline_destination made = { 0 };
  jvirt_barray_ptr *coefficients;
  jpeg_saved_marker_ptr marker;

  from.err = &error.base;
  set_error(&error);
  to.err = &error.base;
  jpeg_create_decompress(&from);
  jpeg_create_compress(&to);
  if (setjmp(error.escape)) {
    report(&error, message);
    jpeg_destroy_compress(&to);
    jpeg_destroy_decompress(&from);
    free(made.bytes);
    return error.code;
  }
  memset(&progress, 0, sizeof progress);
  progress.progress_monitor = watch_scans;
  from.progress = &progress;
  set_source(&from, &source, bytes, length);
  jpeg_save_markers(&from, JPEG_APP0 + 1, 0xFFFF);
  jpeg_save_markers(&from, JPEG_APP0 + 2, 0xFFFF);
  jpeg_read_header(&from, TRUE);
  if ((uint64_t)from.image_width * from.image_height > max_pixels) {
    error.code = FEEDLINE_MISUSE;
    ERREXIT(&from, JERR_IMAGE_TOO_BIG);
  }
  coefficients = jpeg_read_coefficients(&from);
  /* libjpeg decodes damaged and incomplete files to pixels that no other file's coefficients give: it fills gaps and
   * smooths blocks whose scans are missing. */
  if (error.base.num_warnings != 0 || !complete(&from)) ERREXIT(&from, JERR_BAD_PROGRESSION);
  jpeg_copy_critical_parameters(&from, &to);
  to.optimize_coding = TRUE;
  to.write_JFIF_header = from.saw_JFIF_marker;
  to.write_Adobe_marker = from.saw_Adobe_marker;
  set_destination(&to, &made);
  jpeg_write_coefficients(&to, coefficients);
  for (marker = from.marker_list; marker; marker = marker->next) {
    jpeg_write_marker(&to, marker->marker, marker->data, marker->data_length);
  }
  jpeg_finish_compress(&to);
  jpeg_finish_decompress(&from);
  jpeg_destroy_compress(&to);
  jpeg_destroy_decompress(&from);
  *out = made.bytes;
  *out_length = destination_length(&made);
  return FEEDLINE_OK;
}

/* ---- Encode: for tests, benches and fuzz seeds. ---- */

static void copy_scans(const feedline_scan *from, size_t count, jpeg_scan_info *to)
{
  size_t i, k;
  for (i = 0; i < count; i++) {
    to[i].comps_in_scan = (int)from[i].count;
    for (k = 0; k < from[i].count && k < 4; k++) to[i].component_index[k] = (int)from[i].components[k];
    to[i].Ss = (int)from[i].first;
    to[i].Se = (int)from[i].last;
    to[i].Ah = (int)from[i].high;
    to[i].Al = (int)from[i].low;
  }
}

int feedline_turbo_encode(const uint8_t *pixels, const feedline_encoding *encoding, const feedline_scan *scans,
                          size_t scan_count, uint8_t **out, size_t *out_length, char *message)
{
  struct jpeg_compress_struct info;
  jpeg_scan_info script[FEEDLINE_SCRIPT];
  feedline_error error;
  feedline_destination made = { 0 };

  info.err = &error.base;
  set_error(&error);
  jpeg_create_compress(&info);
  if (setjmp(error.escape)) {
    report(&error, message);
    jpeg_destroy_compress(&info);
    free(made.bytes);
    return error.code;
  }
  set_destination(&info, &made);
  info.image_width = encoding->width;
  info.image_height = encoding->height;
  info.input_components = (int)encoding->channels;
  info.in_color_space = encoding->channels == 1 ? JCS_GRAYSCALE : encoding->channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, (int)encoding->quality, TRUE);
  if (encoding->rgb_colors && encoding->channels == 3) jpeg_set_colorspace(&info, JCS_RGB);
  info.comp_info[0].h_samp_factor = (int)encoding->h;
  info.comp_info[0].v_samp_factor = (int)encoding->v;
  info.restart_interval = encoding->restart_interval;
  info.optimize_coding = encoding->optimize ? TRUE : FALSE;
  info.arith_code = encoding->arithmetic ? TRUE : FALSE;
  info.dct_method = JDCT_ISLOW;
  if (encoding->progressive) jpeg_simple_progression(&info);
  if (scan_count > 0 && scan_count <= FEEDLINE_SCRIPT) {
    copy_scans(scans, scan_count, script);
    info.scan_info = script;
    info.num_scans = (int)scan_count;
  }
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW rows[1];
    rows[0] = (JSAMPROW)(pixels + (size_t)info.next_scanline * encoding->width * encoding->channels);
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  *out = made.bytes;
  *out_length = destination_length(&made);
  return FEEDLINE_OK;
}

void feedline_turbo_free(uint8_t *bytes) { free(bytes); }

int feedline_turbo_version(void) { return LIBJPEG_TURBO_VERSION_NUMBER; }
