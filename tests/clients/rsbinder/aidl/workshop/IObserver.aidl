// SPDX-License-Identifier: GPL-2.0
package workshop;

/** What a client gives to the workshop, to be called back. */
interface IObserver {
    /** Called while the client waits: answers with twice the number. */
    int ask(int number);

    /** Called without waiting. */
    oneway void tell(int number);

    /** The id of the thread that serves this call. */
    int thread();
}
