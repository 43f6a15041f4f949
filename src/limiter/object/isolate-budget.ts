/**
 * The memory that all objects of one isolate may use together. The platform gives an isolate 128 MB, and may place any
 * number of objects of a class in it. Each object counts its memory, and frees its own when the sum is too large.
 */
import { acceptedDate, hasFeatures } from "../../validation/compatibility.ts";

/**
 * Leaves room for the isolate's own maps, for requests, and for garbage: V8 may let a heap grow to 4 times its live size
 * before it collects garbage.
 */
export const isolateBudgetBytes = 12_000_000;

export class ObjectShare {
  readonly #isolate: IsolateBudget;
  #sizeBytes = 0;

  constructor(isolate: IsolateBudget) {
    this.#isolate = isolate;
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** Negative when memory is freed. */
  add(sizeBytes: number): void {
    this.#sizeBytes += sizeBytes;
    this.#isolate.usedBytes += sizeBytes;
  }

  /** The whole budget while all objects together stay within it; otherwise an equal part for each object. */
  get budgetBytes(): number {
    const { usedBytes, mostBytes, objects } = this.#isolate;
    return usedBytes <= mostBytes ? mostBytes : Math.floor(mostBytes / objects);
  }
}

export class IsolateBudget {
  readonly mostBytes: number;
  usedBytes = 0;
  objects = 0;
  /** An object ends without notice. Its memory is in use until it is garbage-collected. */
  readonly #ended: FinalizationRegistry<ObjectShare>;

  /** @throws Error if the compatibility date of the Worker is too early: it does not start then */
  constructor(mostBytes: number) {
    if (!hasFeatures()) throw new Error(`compatibility_date: expected ${acceptedDate}`);
    this.mostBytes = mostBytes;
    this.#ended = new FinalizationRegistry((share) => this.#leave(share));
  }

  /** @param owner is garbage-collected together with the object */
  join(owner: object): ObjectShare {
    const share = new ObjectShare(this);
    this.objects++;
    this.#ended.register(owner, share);
    return share;
  }

  #leave(share: ObjectShare): void {
    this.objects--;
    this.usedBytes -= share.sizeBytes;
  }
}

export const isolateBudget = new IsolateBudget(isolateBudgetBytes);
