/**
 * Reads server-sent events from a stream of text. A browser's own EventSource cannot send a header, and a token has no
 * place in a URL.
 */

export interface ServerEvent {
  /** Absent where the server gave none: it is not repeated after a reconnect. */
  id?: string;
  event: string;
  data: string;
}

export class EventReader {
  #rest = "";
  #id: string | undefined;
  #event = "";
  #data: string[] = [];

  /** The events that `text` completes. */
  feed(text: string): ServerEvent[] {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop()!;
    return lines.flatMap((line) => this.#take(line.endsWith("\r") ? line.slice(0, -1) : line) ?? []);
  }

  #take(line: string): ServerEvent | undefined {
    if (line === "") return this.#finish();
    const colon = line.indexOf(":");
    const name = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
    else if (name === "id") this.#id = value;
    return undefined;
  }

  #finish(): ServerEvent | undefined {
    const [id, event, data] = [this.#id, this.#event, this.#data];
    this.#id = undefined;
    this.#event = "";
    this.#data = [];
    if (data.length === 0) return undefined;
    return { event: event === "" ? "message" : event, data: data.join("\n"), ...id === undefined ? {} : { id } };
  }
}
