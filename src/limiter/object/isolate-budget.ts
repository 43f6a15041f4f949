/**
 * What the objects of one isolate may hold in memory together. The platform gives an isolate 128 MB and may put any number
 * of objects of a class into one: each counts what it holds, and gives up its own when all of them hold too much.
 */

/** Leaves room for the isolate's own maps, for requests, and for garbage that is not collected yet. */
export const isolateHeldBytes = 32_000_000;

/** The part of one object. */
export class ObjectShare {
  readonly #isolate: IsolateBudget;
  #sizeBytes = 0;

  constructor(isolate: IsolateBudget) {
    this.#isolate = isolate;
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  add(sizeBytes: number): void {
    this.#sizeBytes += sizeBytes;
    this.#isolate.heldBytes += sizeBytes;
  }

  /** How much the object may hold: anything while there is room, an equal part when all of them hold too much. */
  get budgetBytes(): number {
    const { heldBytes, mostBytes, objects } = this.#isolate;
    return heldBytes <= mostBytes ? mostBytes : Math.floor(mostBytes / objects);
  }
}

export class IsolateBudget {
  readonly mostBytes: number;
  heldBytes = 0;
  objects = 0;
  /** An object ends without notice, and what it held is in memory until it is collected. */
  readonly #ended = new FinalizationRegistry<ObjectShare>((share) => this.#leave(share));

  constructor(mostBytes: number) {
    this.mostBytes = mostBytes;
  }

  /** @param holder what ends with the object */
  join(holder: object): ObjectShare {
    const share = new ObjectShare(this);
    this.objects++;
    this.#ended.register(holder, share);
    return share;
  }

  #leave(share: ObjectShare): void {
    this.objects--;
    this.heldBytes -= share.sizeBytes;
  }
}

export const isolateBudget = new IsolateBudget(isolateHeldBytes);
