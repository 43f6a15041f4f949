/** The random choices for one request, which depend only on the seed and the request's number. */
import { type Random, randomFrom } from "../../random.ts";

export class Draw {
  /** The number of the request. */
  readonly id: number;
  /** Each generation of requests uses new names, so that some keys always have quota left. */
  readonly generation: number;
  readonly #random: Random;

  constructor(seed: number, id: number) {
    this.id = id;
    this.generation = Math.floor(id / requestsOfGeneration);
    this.#random = randomFrom(Math.imul(seed, 0x9e3779b1) ^ Math.imul(id + 1, 0x85ebca6b));
  }

  /** An integer from 0 to `end` - 1. */
  below(end: number): number {
    return Math.floor(this.#random() * end);
  }

  chance(share: number): boolean {
    return this.#random() < share;
  }

  /** An element of a non-empty list. */
  one<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)] as Item;
  }

  /** Changes each character of a text independently. */
  each(text: string, change: (character: string) => string): string {
    return Array.from(text, change).join("");
  }

  /** Random bytes, with one character for each byte. */
  bytes(length: number): string {
    return String.fromCharCode(...Array.from({ length }, () => this.below(256)));
  }

  /** Hexadecimal digits. */
  hex(length: number): string {
    return Array.from({ length }, () => this.below(16).toString(16)).join("");
  }
}

const requestsOfGeneration = 2_500;
