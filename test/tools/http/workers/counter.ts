/** Counts the requests of a Worker and the calls of its objects. In workerd, both share an isolate. */
import type { Counts } from "../counts.ts";

const counted = { requests: 0, calls: 0 };

/** An entry point that returns the counts. */
export const counts: ExportedHandler = {
  fetch: () => Response.json(counted satisfies Counts),
};

export const countRequest = (): void => {
  counted.requests++;
};

export const countCall = (): void => {
  counted.calls++;
};

/** Makes a class of objects count the calls of all its methods. */
export function countCalls(objects: { readonly prototype: object }): void {
  const {
    constructor: _,
    alarm: __,
    ...methods
  } = Object.getOwnPropertyDescriptors(objects.prototype) as Record<string, PropertyDescriptor>;
  for (const [name, { value: method }] of Object.entries(methods)) {
    if (typeof method !== "function") continue;
    Object.defineProperty(objects.prototype, name, {
      value(this: unknown, ...values: unknown[]): unknown {
        countCall();
        return Reflect.apply(method, this, values);
      },
    });
  }
}
