/**
 * Meters one answer as it passes: bytes go in as they came, usage comes out at any time. The form of the body is
 * recognized by its first character where the content type does not decide, since endpoints mislabel their streams.
 */

import { EventParser } from "../../../lib/http/server_sent_events.ts";
import { AnthropicReading } from "./anthropic.ts";
import { namedTwice } from "./figures.ts";
import { GeminiReading } from "./gemini.ts";
import { JsonStreamParser } from "./json_stream.ts";
import { OpenAiReading } from "./openai.ts";
import type { Reading } from "./usage_reading.ts";
import { asObject, type Metered } from "./usage.ts";
import { parseAnswer } from "./answer_json.ts";

export type UsageForm = "anthropic" | "openai" | "gemini";

const READINGS: Readonly<Record<UsageForm, () => Reading>> = {
  anthropic: () => new AnthropicReading(),
  openai: () => new OpenAiReading(),
  gemini: () => new GeminiReading(),
};

export class Meter {
  readonly #reading: Reading;
  readonly #content_type: string;
  #parser: EventParser | JsonStreamParser | undefined;
  #done_marker = false;
  #is_stream = false;
  #values = 0;
  #bytes = 0;
  #garbled = false;
  #is_doubled = false;

  constructor(form: UsageForm, content_type: string) {
    this.#reading = READINGS[form]();
    this.#content_type = content_type.toLowerCase();
    this.#is_stream = this.#content_type.includes("event-stream");
  }

  push(bytes: Uint8Array): void {
    this.#bytes += bytes.length;
    this.#parser ??= this.#choose(bytes);
    this.#parser?.push(bytes);
  }

  end(): void {
    this.#parser?.end();
  }

  /** Characters that are held of what has not come whole. */
  get held_chars(): number {
    return this.#parser?.held_chars ?? 0;
  }

  /** Whether the answer is marked as complete; what follows costs nothing. */
  get done(): boolean {
    return this.#done_marker || this.#reading.done;
  }

  /** Bytes of what the model wrote, as far as they came; of an answer in one piece that broke off, all of them. */
  get seen(): { answer_bytes: number } {
    return { answer_bytes: this.#is_stream ? this.#reading.answer_bytes : this.#bytes };
  }

  /**
   * What came: figures; an answer without them that needs none, since it wrote nothing; one that broke off before its
   * last frame, or wrote something and does not say how much; one that cannot be read.
   */
  reading(): "metered" | "silent" | "cut" | "unreadable" {
    const { whole, failed, answer_bytes, lacks } = this.#reading;
    const is_metered = this.#reading.used() !== undefined;
    // Which of two is true is not known.
    if (this.#is_doubled || (!this.#is_stream && this.#values > 1)) return "unreadable";
    if (!is_metered && failed && answer_bytes === 0) return "silent";
    if (!is_metered && answer_bytes === 0 && this.#foreign > 0) return "unreadable";
    // Of a stream that breaks off before its first event nothing is known; what is there and is no event is not read.
    const is_empty = this.#content_type.includes("event-stream") && !this.#garbled;
    if (this.#parser !== undefined && this.#values === 0 && !this.#done_marker && !is_empty) return "unreadable";
    if (this.#is_stream) {
      if (!whole && !this.#done_marker) return "cut";
      if (!is_metered) return answer_bytes > 0 ? "cut" : "silent";
    } else if (!is_metered) {
      return failed ? "cut" : "unreadable";
    }
    return lacks ? "cut" : "metered";
  }

  metered(): Metered {
    const { served_model, service_tier, region, reported_usd, failed, lacks, answer_bytes } = this.#reading;
    const found = this.#reading.used();
    return {
      used: found?.used ?? [],
      // An answer that failed at the vendor and names no usage was not billed.
      complete: found ? found.sane && !lacks && (this.#parser?.dropped ?? 0) === 0 : failed && answer_bytes === 0,
      ...(served_model === undefined ? {} : { served_model }),
      ...(service_tier === undefined ? {} : { service_tier }),
      ...(region === undefined ? {} : { region }),
      ...(reported_usd === undefined ? {} : { reported_usd }),
    };
  }

  #choose(bytes: Uint8Array): EventParser | JsonStreamParser | undefined {
    if (this.#content_type.includes("event-stream")) return this.#sse();
    const first = bytes.find((byte) => byte > 32 && byte !== 0xef && byte !== 0xbb && byte !== 0xbf);
    if (first === undefined) return undefined;
    if (first !== 123 && first !== 91) return this.#sse();
    // A streamed array comes element by element.
    this.#is_stream = first === 91;
    return new JsonStreamParser((value, text) => this.#take(value, text));
  }

  #sse(): EventParser {
    this.#is_stream = true;
    return new EventParser(({ data }) => {
      if (data.trim() === "[DONE]") {
        this.#done_marker = true;
        return;
      }
      // Comments and keep-alives of some endpoints are no JSON; they carry no usage.
      const value = asObject(parseAnswer(data));
      if (value === undefined) this.#garbled = true;
      else this.#take(value, data);
    });
  }

  get #foreign(): number {
    return this.#parser instanceof EventParser ? this.#parser.foreign : 0;
  }

  #take(value: unknown, text: string): void {
    const object = asObject(value);
    if (!object) return;
    this.#values++;
    this.#is_doubled ||= namedTwice(text);
    this.#reading.take(object);
  }
}
